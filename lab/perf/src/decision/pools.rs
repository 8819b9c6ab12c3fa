//! Decisions among prefill and decode replicas, about requests that may be split.
//!
//! The decode replicas are busy, so a prompt that is computed there delays running requests, and
//! splitting pays unless little of the prompt is missing. Before the measurement, requests cross
//! many links, so that their paces are learned; later ones stay in their prefill leg or in their
//! transfer, so that replicas differ in what is ahead and in what crosses their cards.

use meridian_base::{Duration, ReplicaId, RequestId, Rng, Time};
use meridian_routing::{Input, Outcome, Output, Pool, Request, Role, Routing};

use super::world::{DecisionFleet, finished, reported, spec};
use super::{Decided, Options, SEED, decide, drain};
use crate::harness::Results;

/// Replicas of each role.
const SIZES: [u16; 2] = [100, 500];
/// Transfers before the measurement, for each prefill replica.
const TRANSFERS: u64 = 20;
/// Reports after which other clients' requests at a replica count.
const REPORTS: usize = 4;
/// Prefill time of a token.
const TOKEN: Duration = Duration::from_micros(100);

/// The figures of both sizes.
pub(super) fn deciding(options: &Options, results: &mut Results) -> anyhow::Result<()> {
    for each in SIZES {
        let Decided { decision, record, pairs, all, .. } = measure(options, each)?;
        let name = |what: &str| format!("{each} + {each} replicas: {what}");
        results.times(&name("decision"), &decision, [Some(5.0), None]);
        results.add(name("recording it, p50"), "us", record.p50);
        results.add(name("requests split"), "%", 100.0 * pairs as f64 / all as f64);
    }
    Ok(())
}

fn measure(options: &Options, each: u16) -> anyhow::Result<Decided> {
    let fleet = DecisionFleet::of_pools(SEED, each, options.blocks);
    let mut routing = fleet.routing(SEED, None)?;
    let mut rng = Rng::new(SEED).fork(5);
    let mut now = Time::from_millis(2);
    divide(&mut routing, now, each);
    let mut busy = Busy { fleet: &fleet, routing: &mut routing, sent: 0 };
    for at in 0..u64::from(each) * TRANSFERS {
        now = busy.send(now, Until::AnswerEnds, at);
    }
    for at in 0..u64::from(each) {
        let until = if at % 2 == 0 { Until::Prefill } else { Until::Transfer };
        now = busy.send(now, until, at);
    }
    load(&mut routing, now, each);
    let later = now + Duration::from_millis(1);
    let mut turns = (0..2 * each).cycle().map(ReplicaId);
    decide(&mut routing, later, options.samples, |routing, now| {
        // As probes do: with a thousand replicas, each reports every 100 ms.
        turns.by_ref().take(1).for_each(|id| report(routing, now, id, each));
        splits(&fleet, &mut rng)
    })
}

/// A request of a returning session that may be split.
fn splits(fleet: &DecisionFleet, rng: &mut Rng) -> Request {
    Request { splits: true, ..fleet.request(fleet.returning(rng)) }
}

/// Gives the replicas their roles. They keep what they have cached.
fn divide(routing: &mut Routing, now: Time, each: u16) {
    for id in (0..2 * each).map(ReplicaId) {
        let role = if id.0 < each { Role::Prefill } else { Role::Decode };
        let pool = Pool { role, partner: 1, rack: 0 };
        routing.handle(now, Input::Joined { id, spec: spec(pool) });
    }
    load(routing, now, each);
}

/// Reports the loads of all replicas until they count.
fn load(routing: &mut Routing, now: Time, each: u16) {
    for _ in 0..REPORTS {
        (0..2 * each).for_each(|id| report(routing, now, ReplicaId(id), each));
    }
}

/// Reports a load: 8 to 20 running requests at a decode replica, none at a prefill replica.
fn report(routing: &mut Routing, now: Time, id: ReplicaId, each: u16) {
    let running = if id.0 < each { 0 } else { 8 + u32::from(id.0 % 13) };
    routing.handle(now, reported(now, id, running));
    drain(routing);
}

/// How far a request gets before the measurement.
#[derive(Clone, Copy, PartialEq)]
enum Until {
    Prefill,
    Transfer,
    AnswerEnds,
}

/// Sends requests before the measurement.
struct Busy<'a> {
    fleet: &'a DecisionFleet,
    routing: &'a mut Routing,
    sent: u64,
}

impl Busy<'_> {
    /// Sends one request, and returns the time when it got that far. `salt` varies the pace of its
    /// transfer: 8 to 32 us a token, and a fixed part.
    fn send(&mut self, now: Time, until: Until, salt: u64) -> Time {
        self.sent += 1;
        let id = RequestId(u64::MAX - self.sent);
        // Prompts of their own, without blocks: the caches stay as they are.
        let tokens = 2_000 + 1_000 * (salt % 7) as u32;
        let plain = self.fleet.request(Vec::new());
        let request = Request { id, prompt_tokens: tokens, splits: true, ..plain };
        self.routing.handle(now, Input::Arrived(request));
        let (mut split, mut computed) = (false, tokens);
        while let Some(output) = self.routing.poll() {
            if let Output::Dispatch { prefill, matched_tokens, .. } = output {
                (split, computed) = (prefill.is_some(), tokens - matched_tokens);
            }
        }
        let mut now = now;
        if split {
            if until == Until::Prefill {
                return now;
            }
            now = now + TOKEN * computed;
            self.routing.handle(now, Input::Prefilled { id, usage: None });
            if until == Until::Transfer {
                return now;
            }
            now = now + Duration::from_micros(5_000 + u64::from(tokens) * (8 + salt % 25));
        } else {
            now = now + TOKEN * computed;
        }
        self.routing.handle(now, Input::FirstToken(id));
        self.routing.handle(now, finished(id, Outcome::ClientError));
        drain(self.routing);
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The measured decisions are about pairs: most requests are split, and some are not.
    #[test]
    fn most_requests_are_split() {
        let json = std::path::PathBuf::new();
        let options = Options { replicas: 1000, blocks: 40_000, samples: 1_000, json };
        for each in [30, 300] {
            let Decided { pairs, all, .. } = measure(&options, each).unwrap();
            let share = pairs as f64 / all as f64;
            assert!((0.5..0.98).contains(&share), "{share} with {each} of each role");
        }
    }
}
