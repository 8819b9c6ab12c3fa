//! Records the requests of generators as a trace.
//!
//! Programs wait for answers, so recording one requires answer times. Here every answer takes a
//! fixed time to its first token and a fixed time for each further one: there is no engine and no
//! queue, only times that separate the turns of a session. The simulator produces arrivals under
//! load.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use meridian_base::{Rng, Time, mix};

use super::blocks::prompt_ids;
use super::{MAX_TOKENS, Outcome, TraceRequest};
use crate::{Generator, Piece, Poisson, ProgramKey, Reply, Walk};

/// The time that answers take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answers {
    /// Time to the first token.
    pub ttft: Duration,
    /// Time for each further token.
    pub tpot: Duration,
}

impl Default for Answers {
    fn default() -> Answers {
        Answers { ttft: Duration::from_millis(200), tpot: Duration::from_millis(30) }
    }
}

impl Answers {
    /// The whole time of an answer of `tokens`.
    #[must_use]
    pub fn e2e(&self, tokens: u32) -> Duration {
        self.ttft.saturating_add(self.tpot.saturating_mul(tokens.saturating_sub(1)))
    }
}

/// The source of programs.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// A closed loop: this many clients in each region, each with one program at a time.
    Closed {
        /// Clients of each region.
        clients: Vec<u32>,
    },
    /// An open loop: programs arrive as a Poisson process, regardless of unfinished ones; each
    /// belongs to a random client.
    Open {
        /// Requests a second, on average, of all together.
        requests_per_second: f64,
        /// Clients of each region.
        clients: Vec<u32>,
    },
}

/// Options of a recording.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// Seed of the programs and of their arrivals.
    pub seed: u64,
    /// The source of programs.
    pub load: Load,
    /// The time that answers take.
    pub answers: Answers,
    /// Tokens of a block.
    pub block_tokens: u32,
    /// Names of the regions; unnamed ones are left out of the trace.
    pub regions: Vec<Arc<str>>,
}

/// The requests of `generator` under `options`, by time. Endless as long as programs start.
pub fn record<'a>(generator: &'a dyn Generator, options: &RecordOptions) -> Recording<'a> {
    let mut recording = Recording {
        generator,
        options: options.clone(),
        starts: Starts::new(generator, options),
        events: BinaryHeap::new(),
        sequence: 0,
        walks: HashMap::new(),
        programs: 0,
    };
    recording.begin();
    recording
}

/// A generator being recorded.
pub struct Recording<'a> {
    generator: &'a dyn Generator,
    options: RecordOptions,
    starts: Starts,
    /// By time, then in the order of scheduling.
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    sequence: u64,
    walks: HashMap<u64, Walk<Reply>>,
    programs: u64,
}

/// A future event; programs have numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A program arrives in an open loop.
    Arrive,
    Send(u64, usize),
    Answered(u64, usize),
}

impl Recording<'_> {
    fn begin(&mut self) {
        match self.options.load.clone() {
            Load::Closed { clients } => {
                for (region, &n) in (0..).zip(&clients) {
                    for client in 0..n {
                        let key =
                            ProgramKey { seed: self.options.seed, region, client, ordinal: 0 };
                        self.start(Time::ZERO, key);
                    }
                }
            }
            Load::Open { .. } => self.plan_arrival(),
        }
    }

    fn plan(&mut self, at: Time, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at, self.sequence, event)));
    }

    fn plan_arrival(&mut self) {
        if let Some(after) = self.starts.arrivals.next() {
            self.plan(Time::ZERO + after, Event::Arrive);
        }
    }

    fn start(&mut self, at: Time, key: ProgramKey) {
        let number = self.programs;
        self.programs += 1;
        self.walks.insert(number, Walk::new(self.generator.program(key)));
        self.go_on(at, number);
    }

    /// Schedules the next requests of a program, or its client's next program once it has ended.
    fn go_on(&mut self, now: Time, number: u64) {
        let Some(walk) = self.walks.get_mut(&number) else { return };
        let mut ready = Vec::new();
        while let Some(node) = walk.take() {
            ready.push((node, walk.program().nodes[node].think));
        }
        for &(node, think) in &ready {
            self.plan(now + think, Event::Send(number, node));
        }
        let over = self.walks.get(&number).is_some_and(Walk::is_over);
        if !over {
            return;
        }
        let walk = self.walks.remove(&number);
        // A program without requests takes no time; its client would start another for ever.
        let key = walk.filter(|walk| !walk.program().nodes.is_empty()).map(|w| w.program().key);
        if let (Load::Closed { .. }, Some(key)) = (&self.options.load, key) {
            self.start(now, ProgramKey { ordinal: key.ordinal + 1, ..key });
        }
    }

    fn send(&mut self, now: Time, number: u64, node: usize) -> Option<TraceRequest> {
        let walk = self.walks.get(&number)?;
        let program = walk.program();
        let pieces = walk.prompt(node);
        let segments = pieces.iter().flat_map(Piece::segments).copied().collect();
        let (input_tokens, hash_ids) = prompt_ids(segments, self.options.block_tokens);
        let output_tokens = program.nodes[node].max_tokens.min(MAX_TOKENS);
        let e2e = self.options.answers.e2e(output_tokens);
        let request = TraceRequest {
            block_tokens: self.options.block_tokens,
            hash_ids,
            session: Some(program.session),
            turn: Some(program.nodes[node].level.saturating_add(1)),
            region: self.options.regions.get(program.key.region as usize).cloned(),
            tenant: Some(program.tenant).filter(|&tenant| tenant != 0),
            outcome: Some(Outcome::Done),
            ..TraceRequest::new(now, input_tokens, output_tokens)
        };
        self.plan(now + e2e, Event::Answered(number, node));
        Some(request)
    }
}

impl Iterator for Recording<'_> {
    type Item = TraceRequest;

    fn next(&mut self) -> Option<TraceRequest> {
        while let Some(Reverse((now, _, event))) = self.events.pop() {
            match event {
                Event::Arrive => {
                    let key = self.starts.key(self.options.seed);
                    self.start(now, key);
                    self.plan_arrival();
                }
                Event::Send(number, node) => {
                    if let Some(request) = self.send(now, number, node) {
                        return Some(request);
                    }
                }
                Event::Answered(number, node) => {
                    if let Some(walk) = self.walks.get_mut(&number) {
                        let reply = walk.program().reply(node);
                        walk.answered(node, reply);
                        self.go_on(now, number);
                    }
                }
            }
        }
        None
    }
}

/// Start times and clients of programs in an open loop.
struct Starts {
    arrivals: Poisson,
    rng: Rng,
    clients: Vec<u32>,
    /// Programs that each client (region, client) has started.
    started: HashMap<(u32, u32), u64>,
}

impl Starts {
    fn new(generator: &dyn Generator, options: &RecordOptions) -> Starts {
        let (rate, clients) = match &options.load {
            Load::Closed { .. } => (0.0, Vec::new()),
            Load::Open { requests_per_second, clients } => (*requests_per_second, clients.clone()),
        };
        Starts {
            arrivals: Poisson::new(options.seed, rate / generator.mean_requests().max(1.0)),
            rng: Rng::new(mix(options.seed, 0x5354_4152_5453)),
            clients,
            started: HashMap::new(),
        }
    }

    /// The next program's key.
    fn key(&mut self, seed: u64) -> ProgramKey {
        let all: u64 = self.clients.iter().copied().map(u64::from).sum();
        let mut at = self.rng.below(usize::try_from(all.max(1)).unwrap_or(usize::MAX)) as u64;
        let (mut region, mut client) = (0, 0);
        for (number, &here) in (0..).zip(&self.clients) {
            if at < u64::from(here) {
                (region, client) = (number, at as u32);
                break;
            }
            at -= u64::from(here);
        }
        let started = self.started.entry((region, client)).or_default();
        let key = ProgramKey { seed, region, client, ordinal: *started };
        *started += 1;
        key
    }
}
