//! A replica that fails a part of its requests at once, beside a good one.

use std::collections::BTreeMap;

use meridian_base::{Duration, ModelId, ReplicaId, RequestId, Time};
use meridian_routing::{
    Config, Input, Load, Outcome, Output, ReplicaSpec, Request, Routing, policy,
};

const BAD: ReplicaId = ReplicaId(0);
const GOOD: ReplicaId = ReplicaId(1);

/// Two replicas, requests at a steady pace, and the attempts so far.
struct Fleet {
    routing: Routing,
    now: Time,
    /// What ends when, in the order of its number.
    coming: BTreeMap<(Time, u64), Input>,
    numbers: u64,
    /// Of so many attempts at the bad one, one fails.
    one_in: u32,
    at_bad: u32,
    at_good: u32,
    done: u32,
}

impl Fleet {
    fn new(policy: &str, one_in: u32) -> Fleet {
        let config = Config::new(policy::find(policy).expect("is a policy"));
        let mut routing = Routing::new(config, 1);
        for id in [BAD, GOOD] {
            let spec = ReplicaSpec {
                models: vec![ModelId(0)],
                kv_tokens: Some(100_000),
                slots: None,
                weight: 1,
                rtt: Duration::ZERO,
                place: Default::default(),
                pool: Default::default(),
            };
            routing.handle(Time::ZERO, Input::Joined { id, spec });
        }
        let (coming, numbers) = (BTreeMap::new(), 0);
        let now = Time::ZERO;
        Fleet { routing, now, coming, numbers, one_in, at_bad: 0, at_good: 0, done: 0 }
    }

    fn later(&mut self, ms: u64, input: Input) {
        self.numbers += 1;
        self.coming.insert((self.now + Duration::from_millis(ms), self.numbers), input);
    }

    fn ends(&mut self, id: RequestId, ms: u64, outcome: Outcome) {
        let (retry, usage, extended, served) = (outcome != Outcome::Done, None, None, None);
        self.later(ms, Input::Finished { id, outcome, retry, usage, extended, served });
    }

    fn answers(&mut self, id: RequestId) {
        self.later(190, Input::FirstToken(id));
        self.ends(id, 200, Outcome::Done);
    }

    fn outputs(&mut self) {
        while let Some(output) = self.routing.poll() {
            match output {
                Output::Dispatch { id, replica, .. } if replica == BAD => {
                    self.at_bad += 1;
                    match self.at_bad.is_multiple_of(self.one_in) {
                        true => self.ends(id, 2, Outcome::EngineError),
                        false => self.answers(id),
                    }
                }
                Output::Dispatch { id, .. } => {
                    self.at_good += 1;
                    self.answers(id);
                }
                Output::Probe(id) => {
                    let load = Load { pending: Some(0), ..Load::default() };
                    self.later(1, Input::Reported { id, asked: self.now, load });
                }
                Output::Reject { id, why, .. } => panic!("{id} is rejected: {why:?}"),
                _ => {}
            }
        }
    }

    /// Requests for so many seconds, 20 in each.
    fn run(&mut self, seconds: u64) {
        for n in 0..seconds * 20 {
            let prompt_tokens = 100;
            let request = Request { prompt_tokens, ..Request::plain(RequestId(n + 1), ModelId(0)) };
            self.coming.insert((Time::from_millis(50 * n), 0), Input::Arrived(request));
        }
        loop {
            let timer = self.routing.poll_timeout().unwrap_or(Time::MAX);
            let Some((&(at, number), _)) = self.coming.first_key_value() else { return };
            if timer < at {
                self.now = self.now.max(timer);
                self.routing.handle_timeout(self.now);
            } else {
                let input = self.coming.remove(&(at, number)).expect("it is the first");
                self.now = self.now.max(at);
                let is_done = matches!(input, Input::Finished { outcome: Outcome::Done, .. });
                self.done += u32::from(is_done);
                // Probes never end.
                let ends = self.done == (seconds * 20) as u32;
                self.routing.handle(self.now, input);
                if ends {
                    return;
                }
            }
            self.outputs();
        }
    }
}

// Defect half-broken: a replica that fails every second request at once gets a small part of the requests, under each policy.
// Every request is answered in the end.
#[test]
fn fails_every_second() {
    for policy in ["meridian", "least_outstanding", "round_robin", "p2c"] {
        let mut fleet = Fleet::new(policy, 2);
        fleet.run(60);
        let all = fleet.at_bad + fleet.at_good;
        assert_eq!(fleet.done, 1200, "{policy}");
        assert!(fleet.at_bad * 10 <= all, "{policy}: {} of {all}", fleet.at_bad);
    }
}

// Defect half-broken: failing fast does not look like free capacity.
// With the breaker out of the way, the bad replica gets no more than its share.
#[test]
fn fails_fast() {
    for policy in ["meridian", "least_outstanding"] {
        let mut fleet = Fleet::new(policy, 2);
        let mut config = fleet.routing.config().clone();
        config.breaker.failures = 1_000_000;
        fleet.routing.handle(Time::ZERO, Input::Tuned(Box::new(config)));
        fleet.run(60);
        let all = fleet.at_bad + fleet.at_good;
        assert!(fleet.at_bad * 100 <= all * 55, "{policy}: {} of {all}", fleet.at_bad);
    }
}
