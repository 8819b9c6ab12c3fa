//! Scenarios of the policies: each policy's picks and reasons, as readable text.
//!
//! `REWRITE=1 cargo test -p meridian-routing --test all policies` rewrites the outputs, with `-p
//! meridian-rivals` those of the policies of other routers; read the diff before you commit it.
//! Commands:
//!
//! - `policy NAME [knob=value ...] [seed=N]` builds one and prints its declaration; further parameters
//!   are lines below, as `knob: text`;
//! - `replicas` takes one replica a line, `FIELD=NUMBER ...` (fields of `Row`, and `matched` blocks
//!   of the request at hand, `slots`, `weight`, `tree` blocks held in the index);
//! - `pick [prompt=N] [key=N] [head=N] [at=S] [waited=MS] [due=MS] [eligible=(..)] [full=(..)] [dispatch]
//!   [reply=TOKENS] [queued=N] [reused=SHARE]` decides once, with blocks of 16 tokens, a reply of 200 and no
//!   deadline (`dispatch` reports it); those of one family share a prefix: `[blocks=N] [family=N]`;
//! - `ended replica=R [blocks=N] [family=N]` reports the end of the request to the policy;
//! - `spread times=N ...` decides N times and counts, which shows how ties fall;
//! - `terms [prompt=N] [reply=TOKENS] [queued=N] [reused=SHARE]` prints the terms of the explain endpoint;
//! - `first_tokens replica=N ms=X times=N` reports latencies.

use std::collections::BTreeMap;

use datadriven::TestCase;
use meridian_base::{Duration, ModelId, ReplicaId, RequestId, Rng, Time};
use meridian_routing::policy::{
    Chosen, Common, Dispatched, Given, Params, Pick, Policy, PolicyEvent, Spec, Value, View,
};
use meridian_routing::{
    CandidateRow, Decision, Evict, Links, Peers, PrefixIndex, ReplicaSpec, Replicas, Request, Row,
    Why,
};

use crate::every;

const BLOCK_TOKENS: f32 = 16.0;

struct Bench {
    policy: Box<dyn Policy>,
    rng: Rng,
    links: Links,
    replicas: Replicas,
    matched: Vec<u32>,
    index: PrefixIndex,
    peers: Peers,
    requests: u64,
    /// When the newest decision was made.
    now: Time,
}

/// One line of `replicas`.
struct Line {
    spec: ReplicaSpec,
    row: Row,
    matched: u32,
    tree: usize,
}

/// Blocks of a prompt: those of one family share a prefix.
fn chain(family: u64, blocks: u64) -> Vec<u64> {
    (0..blocks).map(|block| family << 32 | block).collect()
}

/// The row of an idle, trusted replica.
fn idle() -> Row {
    Row {
        ms_per_token: 0.1,
        step_slope_ms: 0.1,
        next_end_ms: f32::INFINITY,
        trust: 1.0,
        kv_free: f32::INFINITY,
        free_slots: u32::MAX,
        ..Row::default()
    }
}

fn spec() -> ReplicaSpec {
    ReplicaSpec {
        models: vec![ModelId(0)],
        kv_tokens: None,
        slots: None,
        weight: 1,
        rtt: Duration::ZERO,
        place: Default::default(),
        pool: Default::default(),
    }
}

fn line(text: &str) -> Line {
    let mut line = Line { spec: spec(), row: idle(), matched: 0, tree: 0 };
    for field in text.split_whitespace() {
        let (name, value) = field.split_once('=').expect("FIELD=NUMBER");
        let number: f32 = value.parse().expect("a number");
        let count = number as u32;
        match name {
            "outstanding" => line.row.outstanding = count,
            "pending" => line.row.pending = count,
            "reported_pending" => line.row.reported_pending = count,
            "running" => line.row.running = count,
            "front_tokens" => line.row.front_tokens = number,
            "outstanding_tokens" => line.row.outstanding_tokens = number,
            "kv_used" => line.row.kv_used = number,
            "utilisation" => line.row.utilisation = number,
            "ms_per_token" => line.row.ms_per_token = number,
            "step_slope_ms" => line.row.step_slope_ms = number,
            "next_end_ms" => line.row.next_end_ms = number,
            "trust" => line.row.trust = number,
            "rtt_ms" => line.row.rtt_ms = number,
            "matched" => line.matched = count,
            "slots" => line.spec.slots = Some(count),
            "weight" => line.spec.weight = count,
            "tree" => line.tree = count as usize,
            _ => panic!("no such field: {name}"),
        }
    }
    line
}

fn bench(spec: &'static Spec, params: &Params, seed: u64) -> Bench {
    Bench {
        policy: (spec.build)(params),
        rng: Rng::new(seed),
        links: Links::default(),
        replicas: Replicas::default(),
        matched: Vec::new(),
        index: PrefixIndex::new(1 << 16, 64, Evict::LeastRecent),
        peers: Peers::default(),
        requests: 0,
        now: Time::ZERO,
    }
}

fn build(case: &mut TestCase) -> (Bench, String) {
    let seed = case.try_take_arg("seed").expect("a number").unwrap_or(1);
    let name = case.args.iter().find(|(_, v)| v.is_empty()).map(|(n, _)| n.clone());
    let name = name.expect("a policy's name");
    case.take_flag(&name).expect("a flag");
    let mut given: Vec<(String, Given)> = case
        .args
        .drain()
        .map(|(knob, v)| (knob, v[0].parse().map_or(Given::Word(v[0].clone()), Given::Number)))
        .collect();
    for line in case.input.lines() {
        let (knob, text) = line.split_once(": ").expect("KNOB: TEXT");
        given.push((knob.to_owned(), Given::Word(text.to_owned())));
    }
    let spec = every::find(&name).expect("a policy of the registry");
    match Params::complete(spec, &given) {
        Ok(params) => (bench(spec, &params, seed), declares(spec, &params)),
        Err(errors) => {
            let out = errors.iter().map(|e| format!("{e:?}\n")).collect();
            (bench(spec, &Params::defaults(spec), seed), out)
        }
    }
}

/// A policy's declaration: admission, index, head, and its current knobs.
fn declares(spec: &Spec, params: &Params) -> String {
    let mut out = format!("admission {}\n", spec.admission.name());
    if let Some(i) = (spec.index)(params) {
        let each = i.per_target_blocks.map_or("KV".into(), |n| n.to_string());
        out += &format!("index of {}-byte blocks, {each} each, ", i.block_bytes);
        let ttl = i.ttl.map_or(String::new(), |t| format!(", ttl {t:?}"));
        out += &format!("{} in all, {:?}, {:?}{ttl}\n", i.total_blocks, i.evict, i.insert);
    }
    if (spec.head_bytes)(params) > 0 {
        out += &format!("head of {} bytes\n", (spec.head_bytes)(params));
    }
    for (name, value) in params.iter() {
        out += &match value {
            Value::Number(n) => format!("{name} {n}\n"),
            Value::Word(w) => format!("{name} {w}\n"),
            Value::Text(text) => format!("{name} {text}\n"),
        };
    }
    out
}

impl Bench {
    fn set(&mut self, text: &str) -> String {
        let lines: Vec<Line> = text.lines().map(line).collect();
        let of: Vec<_> = lines.iter().map(|l| (l.spec.clone(), l.row)).collect();
        // A new table of the same replicas does not change the membership.
        let joined = self.replicas.ids().len() != lines.len();
        self.replicas = Replicas::of_specs(&of);
        self.matched = lines.iter().map(|l| l.matched).collect();
        if joined {
            self.policy.update(PolicyEvent::Replicas(&self.replicas));
        }
        for (i, l) in lines.iter().enumerate().filter(|(_, l)| l.tree > 0) {
            self.index.insert(i as u16, &chain(i as u64 + 1, l.tree as u64));
        }
        String::new()
    }

    fn decide(&mut self, case: &mut Args) -> (Pick, Time, Request) {
        self.requests += 1;
        let now = Time::ZERO + Duration::from_secs_f64(case.at);
        self.now = now;
        let request = request(self.requests, case);
        let all: Vec<u16> = self.replicas.ids().iter().map(|r| r.0).collect();
        let full: Vec<ReplicaId> = case.full.iter().map(|r| ReplicaId(*r)).collect();
        let eligible = case.eligible.as_ref().unwrap_or(&all);
        let eligible: Vec<ReplicaId> =
            eligible.iter().map(|r| ReplicaId(*r)).filter(|r| !full.contains(r)).collect();
        let view = View {
            now,
            request: &request,
            may_wait: true,
            eligible: &eligible,
            full: &full,
            prefills: &[],
            links: &self.links,
            replicas: &self.replicas,
            matched: &self.matched,
            loading: &[],
            index: Some(&self.index),
            common: case.common,
            held: 0,
            peers: &self.peers,
            available: &[],
            reachable: &[],
            peer_matched: &[],
        };
        let pick = self.policy.pick(&view, &mut self.rng);
        (pick, now, request)
    }

    fn pick(&mut self, case: &mut TestCase) -> String {
        let mut args = Args::take(case);
        let (pick, now, request) = self.decide(&mut args);
        if args.dispatch
            && let Pick::Replica(to) = pick
        {
            self.dispatch(now, &request, to.replica);
        }
        format!("{}\n", show(pick))
    }

    fn ended(&mut self, case: &mut TestCase) -> String {
        let replica = ReplicaId(case.take_arg("replica").expect("replica=N"));
        let args = Args::take(case);
        self.policy.update(PolicyEvent::Ended { request: &request(0, &args), replica });
        String::new()
    }

    fn spread(&mut self, case: &mut TestCase) -> String {
        let times: u32 = case.take_arg("times").expect("times=N");
        let mut args = Args::take(case);
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for i in 0..times {
            args.key = u64::from(i);
            args.head = u64::from(i);
            let (pick, _, _) = self.decide(&mut args);
            let name = match pick {
                Pick::Replica(to) => format!("{} {}", to.replica, to.why.word()),
                Pick::Wait => "wait".into(),
            };
            *counts.entry(name).or_default() += 1;
        }
        counts.iter().map(|(name, n)| format!("{name}: {n}\n")).collect()
    }

    fn terms(&self, case: &mut TestCase) -> String {
        let args = Args::take(case);
        let mut out = String::new();
        for &replica in self.replicas.ids() {
            let terms = self.terms_of(replica, &args, self.replicas.ids());
            let each: String = terms.iter().map(|(name, n)| format!(" {name}={n:.2}")).collect();
            let sum: f64 = terms.iter().map(|t| t.1).sum();
            out += &format!("{replica}{each} (sum {sum:.2})\n");
        }
        out
    }

    /// The terms of a replica's score in a decision among `eligible`.
    fn terms_of(
        &self,
        replica: ReplicaId,
        args: &Args,
        eligible: &[ReplicaId],
    ) -> Vec<(&str, f64)> {
        let candidates = eligible.iter().map(|r| self.candidate(*r, args.prompt)).collect();
        let (at, common) = (self.now, args.common);
        let decision = Decision { candidates, at, common, ..Decision::default() };
        self.policy.terms(&self.candidate(replica, args.prompt), &decision)
    }

    fn candidate(&self, replica: ReplicaId, prompt: u32) -> CandidateRow {
        let blocks = self.matched[replica.index()] as f32;
        CandidateRow {
            replica,
            ineligible: None,
            matched_tokens: (blocks * BLOCK_TOKENS).min(prompt as f32),
            prompt_tokens: prompt,
            row: *self.replicas.row(replica),
            of_siblings: Default::default(),
            loading_ms: 0.0,
        }
    }

    fn dispatch(&mut self, at: Time, request: &Request, replica: ReplicaId) {
        let matched = self.candidate(replica, request.prompt_tokens).matched_tokens;
        let unmatched_tokens = request.prompt_tokens as f32 - matched;
        let prefill_ms = unmatched_tokens * self.replicas.row(replica).ms_per_token;
        let sent = Dispatched { at, request, replica, unmatched_tokens, prefill_ms };
        self.policy.update(PolicyEvent::Dispatched(sent));
    }

    fn first_tokens(&mut self, case: &mut TestCase) -> String {
        let replica = ReplicaId(case.take_arg("replica").expect("replica=N"));
        let ttft_ms = case.take_arg("ms").expect("ms=X");
        let times: u32 = case.take_arg("times").expect("times=N");
        (0..times).for_each(|_| self.policy.update(PolicyEvent::FirstToken { replica, ttft_ms }));
        String::new()
    }
}

/// The request that a command describes.
fn request(id: u64, args: &Args) -> Request {
    Request {
        key: args.key,
        head: args.head,
        blocks: chain(args.family, args.blocks),
        prompt_tokens: args.prompt,
        block_tokens: BLOCK_TOKENS,
        deadline: args.due,
        ..Request::plain(RequestId(id), ModelId(0))
    }
}

/// The inputs of a decision.
struct Args {
    prompt: u32,
    blocks: u64,
    family: u64,
    key: u64,
    head: u64,
    at: f64,
    due: Option<Time>,
    common: Common,
    eligible: Option<Vec<u16>>,
    full: Vec<u16>,
    dispatch: bool,
}

impl Args {
    fn take(case: &mut TestCase) -> Args {
        let eligible = case.args.contains_key("eligible");
        Args {
            prompt: case.try_take_arg("prompt").expect("a number").unwrap_or(1000),
            blocks: case.try_take_arg("blocks").expect("a number").unwrap_or(0),
            family: case.try_take_arg("family").expect("a number").unwrap_or(0),
            key: case.try_take_arg("key").expect("a number").unwrap_or(0),
            head: case.try_take_arg("head").expect("a number").unwrap_or(0),
            at: case.try_take_arg("at").expect("a number").unwrap_or(0.0),
            due: case.try_take_arg("due").expect("ms").map(Time::from_millis),
            common: Common {
                reply_tokens: case.try_take_arg("reply").expect("a number").unwrap_or(200.0),
                queued: case.try_take_arg("queued").expect("a number").unwrap_or(0.0),
                reused: case.try_take_arg("reused").expect("a number").unwrap_or(0.0),
                waited_ms: case.try_take_arg("waited").expect("a number").unwrap_or(0.0),
            },
            eligible: eligible.then(|| case.take_args("eligible").expect("ids")),
            full: case.try_take_args("full").expect("ids").unwrap_or_default(),
            dispatch: case.take_flag("dispatch").expect("a flag"),
        }
    }
}

fn show(pick: Pick) -> String {
    let Pick::Replica(to) = pick else { return "wait".into() };
    let (r, why) = (to.replica, to.why);
    let numbers = match why {
        Why::LeastLoaded(n) | Why::LowestScore(n) => format!(" {n:.2}"),
        Why::Ring { skipped } => format!(" skipped={skipped}"),
        Why::LongestPrefix { tokens } => format!(" tokens={tokens}"),
        Why::Spilled { tokens, best } => format!(" tokens={tokens} best={best}"),
        _ => String::new(),
    };
    format!("{r} {}{numbers}", why.word())
}

// Each file tests one policy: its rule, its ties, its thresholds exactly at the bound, and its
// choice with a single candidate.
#[test]
fn scenarios() {
    datadriven::walk("tests/scenarios/policies", |file| {
        let mut bench: Option<Bench> = None;
        file.run(|case| {
            if case.directive == "policy" {
                let (built, out) = build(case);
                bench = Some(built);
                return out;
            }
            let bench = bench.as_mut().expect("a file begins with `policy`");
            let out = match case.directive.as_str() {
                "replicas" => bench.set(&case.input.clone()),
                "pick" => bench.pick(case),
                "spread" => bench.spread(case),
                "terms" => bench.terms(case),
                "first_tokens" => bench.first_tokens(case),
                "ended" => bench.ended(case),
                other => panic!("no such command: {other}"),
            };
            case.expect_empty().expect("every argument is used");
            out
        });
    });
}

// For any view, a policy picks a candidate or waits, makes the same choice with the same seed, and
// lists terms that add up to its score.
#[test]
fn every_policy_picks_among_the_eligible() {
    for spec in every::ALL {
        for seed in 0..300 {
            let [a, b] = [(); 2].map(|()| random_run(spec, seed));
            assert_eq!(a, b, "{} is not a function of its seed {seed}", spec.name);
        }
    }
}

fn random_run(spec: &'static Spec, seed: u64) -> Vec<Option<ReplicaId>> {
    let mut draw = Rng::new(seed);
    let mut b = bench(spec, &Params::defaults(spec), seed);
    let mut picks = Vec::new();
    let n = 1 + draw.below(20);
    for step in 0..10 {
        let (rows, matched) = random_rows(&mut draw, n);
        let joined = b.replicas.ids().is_empty();
        b.replicas = Replicas::of_specs(&rows);
        b.matched = matched;
        if joined {
            b.policy.update(PolicyEvent::Replicas(&b.replicas));
        }
        let all: Vec<u16> = (0..n as u16).collect();
        let mut eligible: Vec<u16> = all.iter().copied().filter(|_| draw.below(3) > 0).collect();
        if eligible.is_empty() {
            eligible.push(draw.below(n) as u16);
        }
        let full = all.iter().copied().filter(|r| !eligible.contains(r)).collect();
        let mut args = Args {
            prompt: [0, 1, 40, 3000, 2_000_000][draw.below(5)],
            blocks: [0, 1, 100][draw.below(3)],
            family: draw.below(3) as u64,
            key: draw.next_u64(),
            head: draw.next_u64(),
            at: f64::from(step) * draw.unit() * 100.0,
            due: None,
            common: Common {
                waited_ms: [0.0, 7.0, 1e6][draw.below(3)],
                reply_tokens: [0.0, 20.0, 2000.0][draw.below(3)],
                queued: [0.0, 3.0][draw.below(2)],
                reused: draw.unit() as f32,
            },
            eligible: Some(eligible.clone()),
            full,
            dispatch: true,
        };
        let (pick, now, request) = b.decide(&mut args);
        let picked = if let Pick::Replica(to) = pick { Some(to.replica) } else { None };
        if let Pick::Replica(Chosen { replica: r, score: Some(score), .. }) = pick
            && !every::UNTOLD.contains(&spec.name)
        {
            // The terms of the explain endpoint add up to the score (a maximum is negated).
            let eligible: Vec<ReplicaId> = eligible.iter().copied().map(ReplicaId).collect();
            let terms = b.terms_of(r, &args, &eligible);
            let sum: f64 = terms.iter().map(|t| t.1).sum();
            let close = (sum - score.abs()).abs() <= 1e-4 * (1.0 + score.abs());
            assert!(close, "{}: terms {sum}, score {score}, seed {seed}", spec.name);
        }
        if let Some(r) = picked {
            assert!(eligible.contains(&r.0), "{} picked {r}, seed {seed}", spec.name);
            b.dispatch(now, &request, r);
            b.policy.update(PolicyEvent::FirstToken { replica: r, ttft_ms: draw.unit() * 1e4 });
        }
        picks.push(picked);
    }
    picks
}

fn random_rows(draw: &mut Rng, n: usize) -> (Vec<(ReplicaSpec, Row)>, Vec<u32>) {
    let row = |draw: &mut Rng| Row {
        outstanding: draw.below(30) as u32,
        pending: draw.below(4) as u32,
        reported_pending: draw.below(3) as u32,
        running: draw.below(30) as u32,
        front_tokens: draw.below(9000) as f32,
        outstanding_tokens: draw.below(90_000) as f32,
        kv_used: draw.unit() as f32,
        utilisation: draw.unit() as f32,
        trust: draw.unit() as f32,
        ms_per_token: [0.02, 0.1, 0.6][draw.below(3)],
        ..idle()
    };
    let of = |draw: &mut Rng| {
        let slots = (draw.below(2) == 0).then(|| 1 + draw.below(40) as u32);
        (ReplicaSpec { slots, weight: 1 + draw.below(3) as u32, ..spec() }, row(draw))
    };
    let rows = (0..n).map(|_| of(draw)).collect();
    (rows, (0..n).map(|_| [0, 0, 1, 2, 60, 500][draw.below(6)]).collect())
}
