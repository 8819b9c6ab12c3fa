//! Why a request went where it did: the machine's decision in the words of the admin API.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use meridian_base::{PeerId, RequestId};
use meridian_routing::residency::Residence;
use meridian_routing::{CandidateRow, Decision, Ineligible, Request, Routing, Target};
use meridian_wire::admin::{Candidate, Decided, Explanation, PeerCandidate};

use crate::http::refusal::json;
use crate::lock::Mutex;
use crate::shared::Shared;

/// Ids that clients gave themselves, so that they can ask by them: hashes only, the newest.
#[derive(Default)]
pub(crate) struct Explained {
    ids: Mutex<VecDeque<(u64, RequestId)>>,
    /// The residency rules of those that some name, the newest.
    rules: Mutex<BTreeMap<RequestId, Residence>>,
}

/// Clients' own ids remembered.
const MOST: usize = 4096;

impl Explained {
    /// Remembers a request whose id is not of our making.
    pub(crate) fn note(
        &self,
        shown: &HeaderValue,
        id: RequestId,
        residence: &Residence,
        shared: &Shared,
    ) {
        if !residence.is_free() {
            let mut rules = self.rules.lock();
            rules.insert(id, residence.clone());
            if rules.len() > MOST {
                rules.pop_first();
            }
        }
        if shown.to_str().ok().and_then(|s| shared.ids.parse(s)).is_some() {
            return;
        }
        let mut ring = self.ids.lock();
        if ring.len() == MOST {
            ring.pop_front();
        }
        ring.push_back((shared.hash(Some(shown.as_bytes())), id));
    }

    /// The names of the residency rules that name a request.
    fn rules(&self, id: RequestId) -> Vec<String> {
        let rules = self.rules.lock();
        let names = rules.get(&id).into_iter().flat_map(Residence::rules);
        names.map(|rule| rule.name.clone()).collect()
    }

    fn find(&self, shown: &str, shared: &Shared) -> Option<RequestId> {
        let hash = shared.hash(Some(shown.as_bytes()));
        let ring = self.ids.lock();
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

/// The newest decisions, newest first.
pub(crate) fn newest(shared: &Shared, most: usize) -> Vec<Decided> {
    let inner = shared.driver.lock();
    inner.routing.decisions().take(most).map(|d| decided(shared, d)).collect()
}

fn decided(shared: &Shared, decision: &Decision) -> Decided {
    let replica = match decision.pick {
        Some((Target::Replica(id), _)) => decision.candidates.iter().find(|c| c.replica == id),
        _ => None,
    };
    let sent_to = match decision.pick {
        Some((Target::Peer(id), _)) => decision.peers.iter().find(|c| c.peer == id),
        _ => None,
    };
    let matched = replica.map(|c| c.matched_tokens).or(sent_to.map(|c| c.matched_tokens));
    Decided {
        id: shared.ids.show(decision.id),
        at_s: decision.at.as_secs_f64(),
        attempt: decision.attempt,
        resumed: decision.resumed,
        picked: decision.pick.map(|(target, _)| name(shared, target)),
        reason: reason(decision).to_owned(),
        prompt_tokens: decision.candidates.first().map_or(0, |c| c.prompt_tokens),
        matched_tokens: matched.unwrap_or_default(),
        rules: shared.explained.rules(decision.id),
    }
}

/// The replica's address, or the peer as `region/name`.
fn name(shared: &Shared, target: Target) -> String {
    match target {
        Target::Replica(id) => {
            shared.fleet.get(id).map_or_else(String::new, |m| m.spec.url.clone())
        }
        Target::Peer(id) => {
            shared.peers.as_ref().map_or_else(|| id.to_string(), |peers| peers.name(id))
        }
    }
}

fn reason(decision: &Decision) -> &'static str {
    match decision.pick {
        Some((_, why)) => why.word(),
        None if decision.candidates.is_empty() => "no replica serves the model",
        None if decision.candidates.iter().all(|c| c.ineligible == Some(Ineligible::Forbidden)) => {
            "no replica here is permitted: held or refused"
        }
        None if decision.candidates.iter().all(|c| c.ineligible.is_some()) => {
            "no replica is eligible: held"
        }
        None => "waiting for a better replica: held",
    }
}

/// Decides about a request without sending it.
pub(crate) fn dry_run<B: From<Bytes>>(shared: &Shared, request: Request) -> Response<B> {
    let shown = shared.ids.show(request.id);
    let mut inner = shared.driver.lock();
    let now = shared.driver.clock.now();
    let decision = inner.routing.dry_run(now, request);
    let explanation = explanation(shared, &inner.routing, &decision, &shown);
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
    Explanation {
        id: shown.to_owned(),
        logged_as: shared.ids.show(decision.id),
        policy: routing.config().policy.name.to_owned(),
        attempt: decision.attempt,
        resumed: decision.resumed,
        picked: decision.pick.map(|(target, _)| name(shared, target)),
        reason: reason(decision).to_owned(),
        rules: shared.explained.rules(decision.id),
        candidates: decision
            .candidates
            .iter()
            .map(|c| candidate((routing, decision), c, url(c.replica)))
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

fn candidate(
    (routing, decision): (&Routing, &Decision),
    c: &CandidateRow,
    url: String,
) -> Candidate {
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
        terms: routing
            .terms(c, decision)
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    }
}
