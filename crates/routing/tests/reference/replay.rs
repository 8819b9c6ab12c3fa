//! A recording played through the routing machine.
//!
//! Before each request the machine is asked what it would do, and then told to do what the real
//! router did. So every choice is judged on its own, with the history and the loads that the real
//! router had, and one difference is counted once and not for ever after.

use std::collections::{BTreeSet, HashMap, VecDeque};

use meridian_base::{Duration, Fingerprinter, ModelId, ReplicaId, RequestId, Time, keyed};
use meridian_routing::policy::{self, Given, Params, Spec};
use meridian_routing::{Config, Input, Outcome, Output, ReplicaSpec, Request, Routing};

use super::sequence::{Arrival, Event};

pub const REPLICAS: u16 = 5;
const SEED: u64 = 7;
const MODEL: ModelId = ModelId(0);
/// Bytes that stand for a token.
const TOKEN_BYTES: f32 = 4.0;
/// A request's first token comes when this many more have arrived, or with its end.
pub const FIRST_TOKEN_AFTER: usize = 3;

/// A policy as it is replayed.
pub struct Rule {
    pub policy: &'static str,
    pub params: Vec<(&'static str, Given)>,
    /// How often the machine is asked about each request: more than once where ties are drawn,
    /// to see all that it might answer.
    pub asks: usize,
}

/// One choice, theirs and ours.
pub struct Choice {
    pub id: u64,
    pub theirs: u16,
    pub ours: BTreeSet<u16>,
    pub why: &'static str,
    pub rows: Vec<(f32, u32)>,
    pub tokens: u32,
}

impl Choice {
    pub fn agrees(&self) -> bool {
        self.ours.contains(&self.theirs)
    }
}

pub struct Replay {
    routing: Routing,
    spec: &'static Spec,
    params: Params,
    asks: usize,
    now: Time,
    waiting: VecDeque<u64>,
}

impl Replay {
    pub fn new(rule: &Rule) -> Replay {
        let spec = policy::find(rule.policy).expect("a policy of the registry");
        let given: Vec<_> = rule.params.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
        let params = Params::complete(spec, &given).expect("parameters within their range");
        let config = Config { params: params.clone(), ..Config::new(spec) };
        let mut routing = Routing::new(config, SEED);
        for id in (0..REPLICAS).map(ReplicaId) {
            let models = vec![MODEL];
            let rtt = Duration::ZERO;
            let spec = ReplicaSpec { models, kv_tokens: None, slots: None, weight: 1, rtt };
            routing.handle(Time::ZERO, Input::Joined { id, spec });
        }
        let now = Time::ZERO;
        Replay { routing, spec, params, asks: rule.asks, now, waiting: VecDeque::new() }
    }

    /// Plays all events with the choices that were recorded, and says what it would have done.
    pub fn judge(&mut self, events: &[Event], recorded: &[u16]) -> Vec<Choice> {
        let mut choices = Vec::new();
        let mut recorded = recorded.iter();
        for event in events {
            self.now = self.now + Duration::from_millis(1);
            match event {
                Event::Ends(id) => self.end(*id),
                Event::Arrives(arrival) => {
                    let theirs = *recorded.next().expect("a choice for each request");
                    let request = self.request(arrival);
                    let (ours, why) = self.ask(&request);
                    let d = self.routing.explain(request.id).expect("kept");
                    let rows = d
                        .candidates
                        .iter()
                        .map(|c| (c.matched_tokens, c.row.outstanding))
                        .collect();
                    let tokens = request.prompt_tokens;
                    choices.push(Choice { id: arrival.id, theirs, ours, why, rows, tokens });
                    self.send(Request { pinned: Some(ReplicaId(theirs)), ..request });
                }
            }
        }
        assert!(recorded.next().is_none(), "a request for each choice");
        choices
    }

    /// Plays all events on its own; where each request went.
    pub fn run(&mut self, events: &[Event]) -> Vec<u16> {
        let mut choices = Vec::new();
        for event in events {
            self.now = self.now + Duration::from_millis(1);
            match event {
                Event::Ends(id) => self.end(*id),
                Event::Arrives(arrival) => {
                    let request = self.request(arrival);
                    choices.push(self.send(request));
                }
            }
        }
        choices
    }

    fn request(&self, arrival: &Arrival) -> Request {
        let prompt = arrival.prompt();
        let block = (self.spec.index)(&self.params).map_or(64, |index| index.block_bytes);
        let mut fingerprint = Fingerprinter::new(SEED, 0, block);
        fingerprint.push(&prompt);
        let head = (self.spec.head_bytes)(&self.params).min(prompt.len());
        Request {
            id: RequestId(arrival.id),
            model: MODEL,
            tenant: 0,
            key: keyed(SEED, &arrival.session.to_le_bytes()),
            head: keyed(SEED, &prompt[..head]),
            blocks: fingerprint.into_blocks(),
            prompt_tokens: (prompt.len() as f32 / TOKEN_BYTES).ceil() as u32,
            block_tokens: block as f32 / TOKEN_BYTES,
            deadline: None,
            pinned: None,
            streams: true,
            hops: 0,
            peers: 0,
            dry_run: false,
        }
    }

    /// All that the machine answers when it is asked and does not send.
    fn ask(&mut self, request: &Request) -> (BTreeSet<u16>, &'static str) {
        let mut ours = BTreeSet::new();
        let mut word = "";
        for _ in 0..self.asks {
            let decision = self.routing.dry_run(self.now, request.clone());
            let (pick, why) = decision.and_then(|d| d.pick).expect("somebody is eligible");
            ours.insert(pick.0);
            word = why.word();
        }
        (ours, word)
    }

    fn send(&mut self, request: Request) -> u16 {
        self.waiting.push_back(request.id.0);
        self.routing.handle(self.now, Input::Arrived(request));
        let mut sent = None;
        while let Some(output) = self.routing.poll() {
            if let Output::Dispatch { replica, .. } = output {
                sent = Some(replica.0);
            }
        }
        if self.waiting.len() > FIRST_TOKEN_AFTER {
            let first = self.waiting.pop_front().expect("several wait");
            self.routing.handle(self.now, Input::FirstToken(RequestId(first)));
        }
        sent.expect("nothing is held or refused")
    }

    fn end(&mut self, id: u64) {
        self.waiting.retain(|waiting| *waiting != id);
        self.routing.handle(
            self.now,
            Input::Finished {
                id: RequestId(id),
                outcome: Outcome::Done,
                retry: false,
                usage: None,
                extended: None,
                served: None,
            },
        );
        while self.routing.poll().is_some() {}
    }
}

/// How many requests of the same session went where the session's first one had gone.
pub fn kept_sessions(events: &[Event], choices: &[u16]) -> (usize, usize) {
    let mut homes = HashMap::new();
    let (mut later, mut kept) = (0, 0);
    let arrivals = events.iter().filter_map(|event| match event {
        Event::Arrives(arrival) => Some(arrival),
        Event::Ends(_) => None,
    });
    for (arrival, choice) in arrivals.zip(choices) {
        if let Some(home) = homes.insert(arrival.session, *choice) {
            later += 1;
            kept += usize::from(home == *choice);
        }
    }
    (kept, later)
}
