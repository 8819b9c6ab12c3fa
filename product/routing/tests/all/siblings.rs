//! Two gateways of one region that tell each other about their requests.

use meridian_base::{Duration, ModelId, Pool, ReplicaId, RequestId, Rng, SiblingId, Time, keyed};
use meridian_routing::{
    Config, Decision, Input, Outcome, Output, ReplicaSpec, Request, Routing, SiblingRecord, policy,
};

const REPLICAS: u16 = 3;

struct Pair {
    gateways: [Routing; 2],
    /// Requests at replicas, by gateway.
    sent: [Vec<RequestId>; 2],
    now: Time,
    rng: Rng,
    /// Share of the records that are lost.
    loss: f64,
    /// Records that were told.
    told: u32,
}

impl Pair {
    fn new(seed: u64, loss: f64) -> Pair {
        let mut config = Config::new(policy::find("meridian").unwrap());
        config.has_siblings = true;
        let gateways = [1, 2].map(|at| Routing::new(config.clone(), seed ^ at));
        let (sent, now, rng) = (Default::default(), Time::ZERO, Rng::new(seed));
        let mut pair = Pair { gateways, sent, now, rng, loss, told: 0 };
        for id in (0..REPLICAS).map(ReplicaId) {
            let spec = ReplicaSpec {
                models: vec![ModelId(0)],
                kv_tokens: Some(50_000),
                slots: None,
                weight: 1,
                rtt: Duration::ZERO,
                place: Default::default(),
                pool: Pool::default(),
            };
            for at in 0..2 {
                pair.handle(at, Input::Joined { id, spec: spec.clone() });
            }
        }
        pair
    }

    /// Passes an event to a gateway, and what it tells to the other one.
    fn handle(&mut self, at: usize, input: Input) {
        self.gateways[at].handle(self.now, input);
        while let Some(output) = self.gateways[at].poll() {
            match output {
                Output::Dispatch { id, .. } => self.sent[at].push(id),
                Output::Share(record) => {
                    self.told += 1;
                    if self.rng.unit() >= self.loss {
                        self.tell(at, record);
                    }
                }
                _ => {}
            }
        }
        self.gateways.iter_mut().for_each(Routing::check_invariants);
    }

    fn tell(&mut self, from: usize, record: SiblingRecord) {
        let other = &mut self.gateways[1 - from];
        let records = vec![record];
        other.handle(self.now, Input::Sibling { from: SiblingId(from as u16), records });
        while let Some(output) = other.poll() {
            assert!(!matches!(output, Output::Share(_)), "a sibling's word is not passed on");
            if let Output::Dispatch { id, .. } = output {
                self.sent[1 - from].push(id);
            }
        }
    }

    fn step(&mut self, number: u64) {
        self.now = self.now + Duration::from_millis(1 + self.rng.below(40) as u64);
        let at = self.rng.below(2);
        let any = self.sent[at].len();
        match self.rng.below(4) {
            0 | 1 => {
                let chat = self.rng.below(6) as u64;
                let length = 1 + self.rng.below(40) as u64;
                let blocks: Vec<u64> = (0..length).map(|n| keyed(chat, &n.to_le_bytes())).collect();
                let request = Request {
                    prompt_tokens: 64 * blocks.len() as u32,
                    block_tokens: 64.0,
                    blocks,
                    ..Request::plain(RequestId(number), ModelId(0))
                };
                self.handle(at, Input::Arrived(request));
            }
            2 if any > 0 => {
                let id = self.sent[at][self.rng.below(any)];
                self.handle(at, Input::FirstToken(id));
            }
            3 if any > 0 => {
                let id = self.sent[at].swap_remove(self.rng.below(any));
                self.end(at, id);
            }
            _ => {}
        }
    }

    fn end(&mut self, at: usize, id: RequestId) {
        let outcome = match self.rng.below(8) {
            0 => return self.handle(at, Input::Cancelled(id)),
            1 => Outcome::ClientError,
            2 => Outcome::ReplicaError,
            _ => Outcome::Done,
        };
        let (usage, extended, served, retry) = (None, None, None, false);
        let end = Input::Finished { id, outcome, retry, usage, extended, served };
        self.handle(at, end);
    }

    fn end_all(&mut self) {
        for at in [0, 1] {
            while let Some(id) = self.sent[at].pop() {
                self.end(at, id);
            }
        }
    }

    /// The load of each replica, as a gateway knows it.
    fn loads(&self, at: usize) -> Vec<(u32, u32, i64, i64)> {
        let replicas = self.gateways[at].replicas();
        let load = |id| {
            let row = replicas.row(ReplicaId(id));
            let round = |tokens: f32| tokens.round() as i64;
            (row.outstanding, row.running, round(row.front_tokens), round(row.outstanding_tokens))
        };
        (0..REPLICAS).map(load).collect()
    }
}

// What one knows of load and caches, the other knows too.
#[test]
fn siblings_know_the_same() {
    let mut pair = Pair::new(7, 0.0);
    for number in 0..3000 {
        pair.step(number);
        let failed = pair.gateways.iter().any(|gateway| {
            (0..REPLICAS).any(|id| gateway.replicas().row(ReplicaId(id)).failed > 0)
        });
        // Failed attempts linger at the gateway that made them.
        if !failed {
            assert_eq!(pair.loads(0), pair.loads(1), "after {number}");
        }
    }
    assert!(pair.told > 2000, "{}", pair.told);
    let blocks: Vec<u64> = (0..40u64).map(|n| keyed(3, &n.to_le_bytes())).collect();
    let decisions = [0, 1].map(|at| {
        let request = Request {
            prompt_tokens: 64 * 40,
            block_tokens: 64.0,
            blocks: blocks.clone(),
            ..Request::plain(RequestId(9999), ModelId(0))
        };
        pair.gateways[at].dry_run(pair.now, request)
    });
    let mut matched = decisions.each_ref().map(|decision| {
        let tokens = decision.candidates.iter().map(|candidate| candidate.matched_tokens as i64);
        tokens.collect::<Vec<_>>()
    });
    assert_eq!(matched[0], matched[1]);
    matched[0].retain(|tokens| *tokens > 0);
    assert!(!matched[0].is_empty(), "a chat that was answered is known");
    shares_are_whole(&decisions);
}

/// What each gateway ascribes to its sibling is all that there is at a replica.
fn shares_are_whole([one, other]: &[Decision; 2]) {
    let mut seen = 0;
    for (a, b) in one.candidates.iter().zip(&other.candidates) {
        let (share, rest) = (a.of_siblings, b.of_siblings);
        assert_eq!(share.outstanding + rest.outstanding, a.row.outstanding - a.row.failed);
        if a.row.failed == 0 {
            let tokens = share.front_tokens + rest.front_tokens;
            assert!((tokens - a.row.front_tokens).abs() < 1.0, "{tokens} {a:?}");
            assert_eq!(share.waiting + rest.waiting, a.row.outstanding - a.row.running);
        }
        seen += share.outstanding.min(rest.outstanding);
    }
    assert!(seen > 0, "both have requests at a replica");
}

// Lost records do harm until everything is reported again, and what a dead sibling had no longer counts.
#[test]
fn losses_end_with_a_snapshot() {
    let mut pair = Pair::new(11, 0.3);
    (0..2000).for_each(|number| pair.step(number));
    let all = pair.gateways[0].at_replicas(pair.now);
    assert!(!all.is_empty(), "requests are at replicas");
    let now = pair.now;
    pair.gateways[1].handle(now, Input::SiblingLost(SiblingId(0)));
    all.into_iter().for_each(|record| pair.tell(0, record));
    pair.loss = 0.0;
    pair.end_all();
    pair.gateways[0].handle(now, Input::SiblingLost(SiblingId(1)));
    for at in [0, 1] {
        pair.gateways[at].check_invariants();
        let left = (0..REPLICAS).map(|id| {
            let status = pair.gateways[at].replicas().status(ReplicaId(id), now).unwrap();
            (status.own_outstanding, status.row.outstanding - status.row.failed)
        });
        assert!(left.clone().all(|left| left == (0, 0)), "{:?}", left.collect::<Vec<_>>());
    }
}

// A replica that leaves takes the siblings' requests with it, and records about it do nothing.
#[test]
fn a_replica_leaves() {
    let mut pair = Pair::new(13, 0.0);
    (0..400).for_each(|number| pair.step(number));
    pair.now = pair.now + Duration::from_millis(1);
    pair.handle(1, Input::Left(ReplicaId(1)));
    pair.end_all();
    pair.gateways.iter_mut().for_each(Routing::check_invariants);
    assert!(pair.gateways[1].replicas().status(ReplicaId(1), pair.now).is_none());
}
