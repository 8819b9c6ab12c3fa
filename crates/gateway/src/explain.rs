//! Why a request went where it did: the machine's decision in the words of the admin API.

use std::collections::VecDeque;
use std::sync::Mutex;

use http::{HeaderValue, Response, StatusCode};
use meridian_base::{PeerId, RequestId};
use meridian_routing::{CandidateRow, Decision, Ineligible, Request, Routing, Target};
use meridian_wire::admin::{Candidate, Explanation, PeerCandidate};

use crate::body::Body;
use crate::refuse::json;
use crate::shared::Shared;

/// Ids that clients gave themselves, so that they can ask by them: hashes only, the newest.
#[derive(Default)]
pub(crate) struct Explained(Mutex<VecDeque<(u64, RequestId)>>);

/// Clients' own ids remembered.
const MOST: usize = 4096;

impl Explained {
    /// Remembers a request whose id is not of our making.
    pub(crate) fn note(&self, shown: &HeaderValue, id: RequestId, shared: &Shared) {
        if shown.to_str().ok().and_then(|s| shared.ids.parse(s)).is_some() {
            return;
        }
        let mut ring = self.0.lock().expect("no panic while held");
        if ring.len() == MOST {
            ring.pop_front();
        }
        ring.push_back((shared.hash(Some(shown.as_bytes())), id));
    }

    fn find(&self, shown: &str, shared: &Shared) -> Option<RequestId> {
        let hash = shared.hash(Some(shown.as_bytes()));
        let ring = self.0.lock().expect("no panic while held");
        ring.iter().rev().find(|(h, _)| *h == hash).map(|(_, id)| *id)
    }
}

/// The newest decision about a request, by the id its client saw.
pub(crate) fn find(shared: &Shared, shown: &str) -> Option<Explanation> {
    let id = shared.ids.parse(shown).or_else(|| shared.explained.find(shown, shared))?;
    let inner = shared.driver.lock();
    let decision = inner.routing.explain(id)?;
    Some(explanation(shared, &inner.routing, decision, shown))
}

/// Decides about a request without sending it.
pub(crate) fn dry_run(shared: &Shared, request: Request) -> Response<Body> {
    let shown = shared.ids.show(request.id);
    let mut inner = shared.driver.lock();
    let now = shared.driver.clock.now();
    let decision = inner.routing.dry_run(now, request).cloned();
    let explanation = decision.map(|d| explanation(shared, &inner.routing, &d, &shown));
    drop(inner);
    let body = serde_json::to_vec(&explanation).expect("numbers and strings always serialize");
    json(StatusCode::OK, body.into())
}

fn explanation(
    shared: &Shared,
    routing: &Routing,
    decision: &Decision,
    shown: &str,
) -> Explanation {
    let url = |id| shared.fleet.get(id).map_or_else(String::new, |m| m.spec.url.clone());
    let peer = |id: PeerId| shared.peers.as_ref().map_or_else(|| id.to_string(), |p| p.name(id));
    let reason = match decision.pick {
        Some((_, why)) => why.word(),
        None if decision.candidates.is_empty() => "no replica serves the model",
        None if decision.candidates.iter().all(|c| c.ineligible.is_some()) => {
            "no replica is eligible: held"
        }
        None => "waiting for a better replica: held",
    };
    Explanation {
        id: shown.to_owned(),
        policy: routing.config().policy.name.to_owned(),
        attempt: decision.attempt,
        picked: decision.pick.map(|(target, _)| match target {
            Target::Replica(id) => url(id),
            Target::Peer(id) => peer(id),
        }),
        reason: reason.to_owned(),
        candidates: decision
            .candidates
            .iter()
            .map(|c| candidate(routing, c, url(c.replica)))
            .collect(),
        peers: decision.peers.iter().map(|c| peer_candidate(c, peer(c.peer))).collect(),
    }
}

fn peer_candidate(c: &meridian_routing::PeerCandidate, name: String) -> PeerCandidate {
    PeerCandidate {
        name,
        unavailable: c.unavailable.map(|u| u.word().to_owned()),
        matched_tokens: c.matched_tokens,
        rtt_ms: c.rtt_ms,
        held: c.held,
        eligible: c.eligible,
        since: c.since,
    }
}

fn candidate(routing: &Routing, c: &CandidateRow, url: String) -> Candidate {
    Candidate {
        id: c.replica.0,
        url,
        ineligible: c.ineligible.map(|i: Ineligible| i.word().to_owned()),
        matched_tokens: c.matched_tokens,
        prompt_tokens: c.prompt_tokens,
        pending: c.row.pending,
        running: c.row.running,
        outstanding: c.row.outstanding,
        front_tokens: c.row.front_tokens,
        kv_used: c.row.kv_used,
        terms: routing.terms(c).into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
    }
}
