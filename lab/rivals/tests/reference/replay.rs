//! Replays a recording through the routing machine.
//!
//! For each request the machine first makes its own choice, and is then made to follow the real
//! router's. So every choice is judged separately, with the history and the loads that the real
//! router had, and one difference counts only once.

use std::collections::{BTreeSet, VecDeque};

use meridian_base::{Duration, Fingerprinter, ModelId, ReplicaId, RequestId, Time, keyed};
use meridian_routing::policy::{Given, Params, Spec};
use meridian_routing::{Config, Input, Outcome, Output, ReplicaSpec, Request, Routing, Target};

use super::sequence::{Arrival, Event};

const REPLICAS: u16 = 5;
/// More blocks than all prompts of a recording have.
const ENTRIES: usize = 1 << 18;
const SEED: u64 = 7;
const MODEL: ModelId = ModelId(0);
/// Bytes that stand for a token.
const TOKEN_BYTES: usize = 4;
/// A request's first token arrives when this many more requests have arrived, or with its end, as
/// the recorder reports it to Dynamo. The others ignore it.
const FIRST_TOKEN_AFTER: usize = 3;

/// A policy as it is replayed.
pub(crate) struct Rule {
    pub(crate) policy: &'static str,
    pub(crate) params: Vec<(&'static str, Given)>,
    /// How many machines decide about each request, each with its own seed: more than one if a rule
    /// draws, to see all possible choices.
    pub(crate) asks: usize,
}

/// One choice, theirs and ours.
#[derive(Debug)]
#[expect(dead_code, reason = "printed where the choices differ")]
pub(crate) struct Choice {
    id: u64,
    pub(crate) theirs: u16,
    /// The machine's first choice.
    pub(crate) first: u16,
    /// All of its choices, and the replicas whose match it considered as long.
    pub(crate) options: BTreeSet<u16>,
    why: &'static str,
    /// Prompt tokens of the request, and tokens matched and requests outstanding by replica.
    tokens: u32,
    rows: Vec<(f32, u32)>,
}

impl Choice {
    pub(crate) fn agrees(&self) -> bool {
        self.options.contains(&self.theirs)
    }
}

/// The machines with their clock.
pub(crate) struct Replay {
    /// The same region with other seeds. They receive the same events.
    routings: Vec<Routing>,
    spec: &'static Spec,
    params: Params,
    now: Time,
    /// Requests without a first token, in order.
    waiting: VecDeque<u64>,
}

impl Replay {
    pub(crate) fn new(rule: &Rule) -> Replay {
        let spec = meridian_rivals::find(rule.policy).expect("a policy of the registry");
        let given: Vec<_> = rule.params.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
        let params = Params::complete(spec, &given).expect("parameters within their range");
        let routings = (0..rule.asks as u64).map(|at| region(spec, &params, SEED + at)).collect();
        Replay { routings, spec, params, now: Time::ZERO, waiting: VecDeque::new() }
    }

    /// Replays all events with the recorded choices, and returns its own.
    pub(crate) fn judge(&mut self, events: &[Event], recorded: &[u16]) -> Vec<Choice> {
        let mut recorded = recorded.iter();
        let mut choices = Vec::new();
        self.play(events, |replay, request| {
            let theirs = *recorded.next().expect("a choice for each request");
            choices.push(replay.ask(&request, theirs));
            replay.send(Request { pinned: Some(ReplicaId(theirs)), ..request });
        });
        assert!(recorded.next().is_none(), "a request for each choice");
        choices
    }

    /// Runs all events with its own choices; returns each request's replica.
    pub(crate) fn run(&mut self, events: &[Event]) -> Vec<u16> {
        let mut choices = Vec::new();
        self.play(events, |replay, request| choices.push(replay.send(request)));
        choices
    }

    fn play(&mut self, events: &[Event], mut arrives: impl FnMut(&mut Replay, Request)) {
        for event in events {
            self.now = self.now + Duration::from_millis(1);
            match event {
                Event::Ends(id) => self.end(*id),
                Event::Arrives(arrival) => {
                    let request = self.request(arrival);
                    arrives(self, request);
                }
            }
        }
    }

    fn request(&self, arrival: &Arrival) -> Request {
        let prompt = arrival.prompt();
        let block = (self.spec.index)(&self.params).map_or(64, |index| index.block_bytes);
        let mut fingerprint = Fingerprinter::new(SEED, 0, block);
        fingerprint.push(&prompt);
        let head = (self.spec.head_bytes)(&self.params).min(prompt.len());
        Request {
            key: keyed(SEED, &arrival.session.to_le_bytes()),
            head: keyed(SEED, &prompt[..head]),
            blocks: fingerprint.into_blocks(),
            prompt_tokens: (prompt.len() / TOKEN_BYTES) as u32,
            block_tokens: block as f32 / TOKEN_BYTES as f32,
            peers: 0,
            ..Request::plain(RequestId(arrival.id), MODEL)
        }
    }

    /// The machine's choice in a dry run.
    fn ask(&mut self, request: &Request, theirs: u16) -> Choice {
        let mut answers = Vec::new();
        let mut options = BTreeSet::new();
        let (mut why, mut rows) = ("", Vec::new());
        for routing in &mut self.routings {
            let decision = routing.dry_run(self.now, request.clone());
            let Some((Target::Replica(pick), reason)) = decision.pick else {
                panic!("nothing is picked for {}", request.id);
            };
            rows =
                decision.candidates.iter().map(|c| (c.matched_tokens, c.row.outstanding)).collect();
            answers.push(pick.0);
            options.insert(pick.0);
            why = reason.word();
            if why == "longest-prefix" {
                let longest = rows[pick.index()].0;
                options.extend((0..REPLICAS).filter(|r| rows[usize::from(*r)].0 == longest));
            }
        }
        let tokens = request.prompt_tokens;
        Choice { id: request.id.0, theirs, first: answers[0], options, why, tokens, rows }
    }

    fn send(&mut self, request: Request) -> u16 {
        self.waiting.push_back(request.id.0);
        let sent = self.handle(&Input::Arrived(request));
        if self.waiting.len() > FIRST_TOKEN_AFTER
            && let Some(first) = self.waiting.pop_front()
        {
            self.handle(&Input::FirstToken(RequestId(first)));
        }
        sent.expect("nothing is held or refused")
    }

    fn end(&mut self, id: u64) {
        self.waiting.retain(|waiting| *waiting != id);
        let (id, outcome) = (RequestId(id), Outcome::Done);
        let end = Input::Finished {
            id,
            outcome,
            retry: false,
            usage: None,
            extended: None,
            served: None,
        };
        self.handle(&end);
    }

    /// Passes an event to all machines; returns the replica of the first one's dispatch, if there
    /// was one.
    fn handle(&mut self, input: &Input) -> Option<u16> {
        let mut sent = None;
        for routing in self.routings.iter_mut().rev() {
            routing.handle(self.now, input.clone());
            while let Some(output) = routing.poll() {
                if let Output::Dispatch { replica, .. } = output {
                    sent = Some(replica.0);
                }
            }
        }
        sent
    }
}

fn region(spec: &'static Spec, params: &Params, seed: u64) -> Routing {
    let params = params.clone();
    let config = Config { params, index_entries: ENTRIES, ..Config::new(spec) };
    let mut routing = Routing::new(config, seed);
    for id in (0..REPLICAS).map(ReplicaId) {
        let (models, rtt) = (vec![MODEL], Duration::ZERO);
        let spec = ReplicaSpec {
            models,
            kv_tokens: None,
            slots: None,
            weight: 1,
            rtt,
            place: Default::default(),
            pool: Default::default(),
        };
        routing.handle(Time::ZERO, Input::Joined { id, spec });
    }
    routing
}
