//! The question to the routing machine: what a decision about a request needs to know, which is its
//! affinity key, its deadline, and which replicas and peers can serve it before the machine applies
//! residency rules.

use http::{HeaderMap, HeaderName, HeaderValue};
use meridian_base::residency::Residence;
use meridian_base::{Duration, ModelId, PeerId, ReplicaId, RequestId, Time};
use meridian_protocol::openai::{Endpoint, RequestInfo, stored_response};
use meridian_routing::{self as routing, RejectWhy};

use crate::http::headers;
use crate::inputs::Inputs;
use crate::inputs::in_force::InForce;
use crate::inputs::pins::{Home, ResponseKey};
use crate::inputs::residency::Residency;
use crate::peers::all::Peers;
use crate::refusal::Refusal;
use crate::replicas::fleet::Fleet;
use crate::request::answer::resume::continue_chats;
use crate::request::arrive::origin::Origin;
use crate::request::context::RequestContext;

/// The routing machine's input for a request.
pub(crate) fn question(
    context: &RequestContext,
    id: RequestId,
    reach: Reach,
    block_tokens: f32,
) -> routing::Request {
    let RequestContext { sender, prompt, terms, .. } = context;
    assert!(
        reach.pinned.is_none() || reach.here,
        "a request is kept at a replica that it cannot use"
    );
    routing::Request {
        id,
        model: prompt.model,
        tenant: sender.tenant,
        priority: sender.priority,
        key: sender.key,
        session: sender.session,
        head: prompt.info.head,
        blocks: prompt.info.fingerprint.blocks().to_vec(),
        prompt_tokens: prompt.tokens,
        block_tokens,
        max_tokens: prompt.info.max_tokens,
        deadline: terms.deadline,
        pinned: reach.pinned,
        streams: prompt.info.stream,
        hops: sender.hops,
        peers: reach.peers,
        here: reach.here,
        residence: terms.residence.clone(),
        elsewhere: reach.elsewhere,
        splits: false,
        died: sender.died,
        awaited: false,
        scale_from_zero: None,
    }
}

/// Replicas and peers that can serve a request, before its rules are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    /// Peers, one bit each.
    pub(crate) peers: u64,
    /// Whether replicas of this gateway can.
    pub(crate) here: bool,
    /// The only replica with its state.
    pub(crate) pinned: Option<ReplicaId>,
    /// Whether a peer reports the model.
    pub(crate) elsewhere: bool,
}

/// The reach of a request for `model`, whose state is at `home` if it has some.
pub(crate) fn reach(
    residency: &Residency,
    peers: Option<&Peers>,
    model: ModelId,
    home: Option<Home>,
    residence: &Residence,
) -> Reach {
    let elsewhere = peers.is_some_and(|peers| peers.models.knows(model));
    match home {
        Some(Home::At(replica)) => Reach { peers: 0, here: true, pinned: Some(replica), elsewhere },
        // No replica here can serve it, and of the peers only the one that produced the response.
        Some(Home::Away(PeerId(peer))) => {
            let may =
                peers.is_some_and(|peers| peers.may_serve(residency, residence, PeerId(peer)));
            assert!(u32::from(peer) < u64::BITS, "peer {peer} has no bit in a set of peers");
            Reach { peers: u64::from(may) << peer, here: false, pinned: None, elsewhere }
        }
        Some(Home::Gone) | None => {
            let peers = peers.map_or(0, |peers| peers.serving(model));
            Reach { peers, here: true, pinned: None, elsewhere }
        }
    }
}

/// AIPerf's name for a conversation. It comes last: elsewhere it often names a single request.
const CORRELATION: HeaderName = HeaderName::from_static("x-correlation-id");

/// The session of a request: in a configured header, in the body, that of the response which it
/// continues, or AIPerf's.
pub(super) fn session(
    (names, inputs): (&[HeaderName], &Inputs),
    headers: &HeaderMap,
    info: &RequestInfo,
    tenant: u64,
) -> Option<u64> {
    let hash = |value: &HeaderValue| inputs.reading.hash(Some(value.as_bytes()));
    let previous = || {
        let response = inputs.reading.hash(Some(info.previous_response_id.as_ref()?.as_bytes()));
        inputs.pins.session(ResponseKey { tenant, response })
    };
    let header = names.iter().find_map(|name| headers.get(name)).map(hash);
    let own = header.or(info.session).or_else(previous);
    own.or_else(|| headers.get(CORRELATION).map(hash))
}

/// The affinity key: the request's own, or that of its tenant or client. A peer sends it along.
pub(super) fn key(session: Option<u64>, tenant: u64, origin: &Origin) -> u64 {
    match (origin, session) {
        (Origin::Peer { marks, .. }, _) => marks.key,
        (Origin::Client(_), Some(session)) => session,
        (Origin::Client(_), None) if tenant != 0 => tenant,
        (Origin::Client(client), None) => *client,
    }
}

/// A TTFT objective in the request becomes its deadline; for a forwarded request, the rest of its
/// budget.
pub(super) fn deadline(now: Time, headers: &HeaderMap, origin: &Origin) -> Option<Time> {
    let left = match origin {
        Origin::Client(_) => {
            let ms: u64 = headers.get(headers::TTFT_SLO)?.to_str().ok()?.parse().ok()?;
            Duration::from_millis(ms)
        }
        Origin::Peer { marks, .. } => marks.budget?,
    };
    Some(now + left)
}

/// The location of the state that a request continues or asks for. If tenants are configured, a client may
/// continue only responses that this gateway knows as its tenant's; for a forwarded request the
/// first gateway has checked that.
pub(super) fn home(
    inputs: &Inputs,
    in_force: &InForce,
    (endpoint, target): (Endpoint, &str),
    info: &RequestInfo,
    (tenant, origin): (u64, &Origin),
) -> Result<Option<Home>, Refusal> {
    let path = target.split('?').next().unwrap_or(target);
    let stored = match endpoint {
        Endpoint::StoredResponse => stored_response(path).map(|(id, _)| id),
        _ => info.previous_response_id.as_deref(),
    };
    let Some(previous) = stored else { return Ok(None) };
    let pin = ResponseKey { tenant, response: inputs.reading.hash(Some(previous.as_bytes())) };
    match inputs.pins.get(pin) {
        Some(Home::Gone) => Err(Refusal::of(RejectWhy::PinnedGone, Duration::ZERO, None, false)),
        None if in_force.tenants.are_named() && origin.is_client() => {
            Err(Refusal::unknown_response())
        }
        home => Ok(home),
    }
}

/// For a request that continues a chat: checks that every local replica of its model can continue
/// one.
pub(super) fn may_continue(fleet: &Fleet, model: ModelId, origin: &Origin) -> Result<(), Refusal> {
    match origin {
        Origin::Peer { marks, .. } if marks.continues && !continue_chats(fleet, model) => {
            Err(Refusal::cannot_continue())
        }
        _ => Ok(()),
    }
}
