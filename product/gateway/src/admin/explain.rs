//! Explains decisions: translates the routing machine's records into the terms of the admin API.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use meridian_base::residency::Residence;
use meridian_base::{Duration, RequestId, Time};
use meridian_protocol::admin::{
    self, Candidate, Decided, Explanation, Pair, PeerCandidate, ShadowPick,
};
use meridian_routing::{
    CandidateRow, Decision, Ending, Ineligible, Request, Routing, Shadowed, Target, Why,
};

use crate::ids::Ids;
use crate::lock::Mutex;
use crate::peers::all::Peers;
use crate::replicas::region::Region;

/// Reads the routing machine's decisions.
pub(crate) struct Explain {
    region: Arc<Region>,
    peers: Option<Arc<Peers>>,
    ids: Arc<Ids>,
    /// The residency rules of the newest requests that some rule names.
    rules: Mutex<BTreeMap<RequestId, Residence>>,
}

/// Number of requests whose rules are remembered.
const MOST: usize = 4096;

impl Explain {
    pub(crate) fn new(region: Arc<Region>, peers: Option<Arc<Peers>>, ids: Arc<Ids>) -> Explain {
        Explain { region, peers, ids, rules: Mutex::default() }
    }

    /// Remembers the id that a client sees, and the rules that name its request.
    pub(crate) fn note(&self, shown: &[u8], id: RequestId, residence: &Residence) {
        self.ids.note(shown, id);
        if residence.is_free() {
            return;
        }
        let mut rules = self.rules.lock();
        rules.insert(id, residence.clone());
        if rules.len() > MOST {
            rules.pop_first();
        }
        assert!(rules.len() <= MOST, "the rules of old requests are forgotten");
    }

    /// The names of the residency rules that name a request.
    fn rules(&self, id: RequestId) -> Vec<String> {
        let rules = self.rules.lock();
        let names = rules.get(&id).into_iter().flat_map(Residence::rules);
        names.map(|rule| rule.name.clone()).collect()
    }

    /// The newest decision about a request, by the id that its client saw.
    pub(crate) fn find(&self, shown: &str) -> Option<Explanation> {
        let id = self.ids.find(shown)?;
        let inner = self.region.driver.lock();
        let decision = inner.routing.explain(id)?;
        Some(self.explanation(&inner.routing, decision, shown))
    }

    /// The newest decisions, newest first.
    pub(crate) fn newest(&self, most: usize) -> Vec<Decided> {
        let inner = self.region.driver.lock();
        inner.routing.decisions().take(most).map(|decision| self.decided(decision)).collect()
    }

    /// Decides about a request without sending it, and returns the explanation as JSON.
    pub(crate) fn dry_run(&self, request: Request) -> Bytes {
        let shown = self.ids.show(request.id);
        let mut inner = self.region.driver.lock();
        let now = self.region.driver.clock.now();
        let decision = inner.routing.dry_run(now, request);
        let explanation = self.explanation(&inner.routing, &decision, &shown);
        drop(inner);
        let body = serde_json::to_vec(&explanation);
        body.expect("numbers and strings always serialize").into()
    }

    fn decided(&self, decision: &Decision) -> Decided {
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
            id: self.ids.show(decision.id),
            at_s: decision.at.as_secs_f64(),
            attempt: decision.attempt,
            resumed: decision.resumed,
            picked: decision.pick.map(|(target, _)| self.name(target, decision.at)),
            name: match decision.pick {
                Some((Target::Replica(id), _)) => self.region.fleet.called(id, decision.at),
                _ => None,
            },
            prefill: self.prefill(decision),
            reason: reason(decision).to_owned(),
            ending: ending(decision),
            prompt_tokens: decision.candidates.first().map_or(0, |c| c.prompt_tokens),
            matched_tokens: matched.unwrap_or_default(),
            rules: self.rules(decision.id),
        }
    }

    /// The decisions about the same request before this one, oldest first. Those of one request are
    /// few: a queued one, and one for each attempt.
    fn earlier(&self, routing: &Routing, decision: &Decision) -> Vec<Decided> {
        let same = routing.decisions().filter(|other| other.id == decision.id);
        let mut earlier: Vec<_> = same.skip(1).map(|other| self.decided(other)).collect();
        earlier.reverse();
        earlier
    }

    /// The address of the replica at that time, or the peer as `region/name`.
    fn name(&self, target: Target, at: Time) -> String {
        match target {
            Target::Replica(id) => self.region.fleet.url(id, at).unwrap_or_default(),
            Target::Peer(id) => {
                self.peers.as_ref().map_or_else(|| id.to_string(), |peers| peers.name(id))
            }
        }
    }

    /// The address of the replica that computes the prompt, if it is another one.
    fn prefill(&self, decision: &Decision) -> Option<String> {
        decision.prefill.map(|id| self.name(Target::Replica(id), decision.at))
    }

    /// The shadow's decision.
    fn shadow(&self, seen: &Shadowed, at: Time) -> ShadowPick {
        let compared = seen.compared.as_ref();
        ShadowPick {
            policy: seen.policy.to_owned(),
            would: seen.would.word().to_owned(),
            picked: seen.pick.map(|(target, _)| self.name(target, at)),
            prefill: seen.prefill.map(|id| self.name(Target::Replica(id), at)),
            reason: seen.pick.map(|(_, why)| why.word().to_owned()),
            matched_tokens: compared.map(|compared| compared.shadow_matched_tokens),
            predicted_first_token_ms: compared.map(|c| f64::from(c.shadow_first_token_ms)),
        }
    }

    fn explanation(&self, routing: &Routing, decision: &Decision, shown: &str) -> Explanation {
        let name = |target| self.name(target, decision.at);
        let url = |c: &CandidateRow| name(Target::Replica(c.replica));
        let peer = |c: &meridian_routing::PeerCandidate| name(Target::Peer(c.peer));
        Explanation {
            id: shown.to_owned(),
            logged_as: self.ids.show(decision.id),
            policy: routing.config().policy.name.to_owned(),
            attempt: decision.attempt,
            resumed: decision.resumed,
            picked: decision.pick.map(|(target, _)| name(target)),
            prefill: self.prefill(decision),
            pair: pair(decision),
            reason: reason(decision).to_owned(),
            predicted_first_token_ms: decision.first_token_predicted().map(|f| f64::from(f.ms)),
            shadow: decision.shadow.map(|shadow| self.shadow(&shadow, decision.at)),
            ending: ending(decision),
            earlier: self.earlier(routing, decision),
            rules: self.rules(decision.id),
            candidates: decision
                .candidates
                .iter()
                .map(|c| Candidate {
                    name: self.region.fleet.called(c.replica, decision.at),
                    ..candidate((routing, decision), c, url(c))
                })
                .collect(),
            peers: decision.peers.iter().map(|c| peer_candidate(c, peer(c))).collect(),
        }
    }
}

/// The price of a decision's two replicas together.
fn pair(decision: &Decision) -> Option<Pair> {
    decision.prefill?;
    let (score, alone) = match decision.pick {
        Some((_, Why::TwoLegs { score, alone })) => (Some(score), Some(alone)),
        _ => (None, None),
    };
    // JSON has no infinity.
    let finite = |number: Option<f64>| number.filter(|number| number.is_finite());
    let pace = decision.pace;
    Some(Pair {
        score: finite(score),
        alone: finite(alone),
        fixed_ms: pace.fixed_ms,
        ms_per_token: pace.ms_per_token,
    })
}

fn ending(decision: &Decision) -> admin::Ending {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let how = decision.ending.map(|(how, _)| how);
    admin::Ending {
        outcome: how.map(|how| how.word().to_owned()),
        refusal: match how {
            Some(Ending::Refused(why)) => Some(why.word().to_owned()),
            _ => None,
        },
        in_prefill: matches!(how, Some(Ending::Prefill(_))),
        retried: decision.retried,
        first_token_ms: decision.first_token.map(ms),
        total_ms: decision.ending.map(|(_, after)| ms(after)),
    }
}

fn reason(decision: &Decision) -> &'static str {
    match decision.pick {
        Some((_, why)) => why.word(),
        None if decision.candidates.is_empty() => "no replica serves the model",
        None if decision.candidates.iter().all(|c| c.ineligible == Some(Ineligible::Forbidden)) => {
            "no replica here is permitted: queued or refused"
        }
        None if decision.candidates.iter().all(|c| c.ineligible.is_some()) => {
            "no replica is eligible: queued"
        }
        None => "waiting for a better replica: queued",
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
        name: None,
        role: c.row.pool.role.word().to_owned(),
        ineligible: c.ineligible.map(|i: Ineligible| i.word().to_owned()),
        matched_tokens: c.matched_tokens,
        prompt_tokens: c.prompt_tokens,
        pending: c.row.pending,
        running: c.row.running,
        outstanding: c.row.outstanding,
        front_tokens: c.row.front_tokens,
        of_siblings: of_siblings(c.of_siblings),
        kv_used: c.row.kv_used,
        moving_tokens: c.row.moving_tokens,
        terms: routing
            .terms(c, decision)
            .into_iter()
            // JSON has no infinity.
            .filter(|(_, value)| value.is_finite())
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    }
}

fn of_siblings(theirs: meridian_routing::SiblingShare) -> Option<admin::SiblingShare> {
    let meridian_routing::SiblingShare { outstanding, waiting, front_tokens } = theirs;
    (outstanding > 0).then_some(admin::SiblingShare { outstanding, waiting, front_tokens })
}
