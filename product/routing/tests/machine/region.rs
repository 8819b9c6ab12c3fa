//! Scenarios of the routing machine: its reactions to a region's events, as readable text.
//!
//! `REWRITE=1 cargo test -p meridian-routing --test machine` rewrites the outputs, with `-p
//! meridian-rivals --test all` those of the policies of other routers; read the diff before you
//! commit it. Commands (times in ms with `at=`, never going back):
//!
//! - `region policy=NAME [admission=blind|pending|saturation|pending_kv|outstanding_N] [held=N]
//!   [held_tenant=N] [max_wait=MS] [promise=MS] [attempts=N] [topology=..] [KNOB=VALUE ..]`, with
//!   the policy's own knobs
//! - `configure policy=NAME [admission=..] [KNOB=VALUE ..]` changes it from now on
//! - `tune [held=N] [max_wait=MS] [attempts=N] [failures=N] [busy=MS] [idle=MS] [max_replicas=N]
//!   [explain=N]` changes these settings from now on
//! - `join r=N [kv=TOKENS] [slots=N]`, `drain r=N`, `resume r=N`, `leave r=N`
//!   `join` also takes `models=(N,..)`, `role=both|prefill|decode`, `partner=N` and `rack=N`
//! - `report r=N [pending=N] [running=N] [kv=SHARE] [asked=MS]`, `miss r=N`
//! - `adapters r=N [listed=(N,..)] [slots=N] [running=(N,..)] [waiting=(N,..)]`
//! - `contexts r=N of=(N,..)`: the longest contexts of models 0 and so on
//! - `pause r=N for=MS`: the engine asks for no requests for so long
//! - `busy r=N running=N`: enough reports in a row to show that other clients' requests run there
//! - `arrive id=N [prompt=TOKENS] [blocks=(a,b,..)] [tenant=N] [priority=low|normal|high]
//!   [deadline=MS] [pinned=N] [splits] [zero=MS]`, `zero` for a model that is scaled to zero
//! - `first id=N`, `finish id=N [outcome=full|error|client] [retry] [blocks=(a,b,..)] [prompt=N
//!   cached=N]`, `cancel id=N`; `blocks` are those of prompt and reply together
//! - `prefilled id=N [prompt=N cached=N]`, `prefill-failed id=N outcome=..`: the prefill leg
//! - peers: see `peers.rs`
//! - `tick` calls the machine's timeout; probes stay unanswered unless the scenario answers them
//! - `needed r=N` counts the requests for which a replica has to stay: its own, those that come
//!   there after their prefill, and those whose KV it holds
//! - `state` prints the replicas, `totals` the outcomes of their requests, `why id=N` the
//!   candidates of the newest decision, `endings id=N` how each decision ended, `links` the pace of
//!   KV

use std::fmt::Write;

use datadriven::TestCase;
use meridian_base::{Duration, ModelId, ReplicaId, RequestId, Time, keyed};
use meridian_routing::policy::{Given, Param, Params, Spec};
use meridian_routing::{
    AdapterReport, Admission, Config, Input, Load, Outcome, Output, Pool, Priority, ReplicaSpec,
    Request, Role, Routing, Usage,
};

use crate::{every, peers};

/// Reports that have to agree about other clients' requests.
const AGREEING: usize = 4;

struct Region {
    routing: Routing,
    now: Time,
}

pub(crate) fn arg<T: std::str::FromStr>(t: &TestCase, name: &str) -> Option<T> {
    let text = t.args.get(name)?.first()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a value")))
}

fn ms(t: &TestCase, name: &str) -> Option<Time> {
    arg::<f64>(t, name).map(|ms| Time::from_nanos((ms * 1e6) as u64))
}

fn admission(text: &str) -> Admission {
    match text.strip_prefix("outstanding_") {
        Some(max) => Admission::Outstanding { max: max.parse().expect("is a number") },
        None => match text {
            "blind" => Admission::Blind,
            "pending" => Admission::Pending,
            "saturation" => Admission::Saturation,
            "pending_kv" => Admission::PendingKv,
            other => panic!("{other} is not an admission mode"),
        },
    }
}

fn region(t: &TestCase) -> Region {
    let name: String = arg(t, "policy").expect("region names a policy");
    let spec = every::find(&name).unwrap_or_else(|| panic!("{name} is not a policy"));
    let mut config = Config::new(spec);
    config.params = knobs(t, spec);
    config.topology = peers::topology(t);
    config.peering = peers::peering(t);
    if let Some(mode) = arg::<String>(t, "admission") {
        config.admission = admission(&mode);
    }
    config.held.max = arg(t, "held").unwrap_or(config.held.max);
    config.held.max_per_tenant = arg(t, "held_tenant").unwrap_or(config.held.max_per_tenant);
    config.held.max_wait = arg(t, "max_wait").map_or(config.held.max_wait, Duration::from_millis);
    config.held.promise = arg(t, "promise").map_or(config.held.promise, Duration::from_millis);
    config.max_replicas = arg(t, "max_replicas").unwrap_or(config.max_replicas);
    config.attempts = arg(t, "attempts").unwrap_or(config.attempts);
    Region { routing: Routing::new(config, 1), now: Time::ZERO }
}

fn configured(t: &TestCase) -> Input {
    let name: String = arg(t, "policy").expect("names a policy");
    let policy = every::find(&name).unwrap_or_else(|| panic!("{name} is not a policy"));
    let mode = arg::<String>(t, "admission");
    let admission = mode.map_or(policy.admission, |mode| admission(&mode));
    Input::Configured { policy, params: knobs(t, policy), admission }
}

/// The present settings, but for those that the test names.
fn tuned(t: &TestCase, present: &Config) -> Input {
    let mut tuning = present.clone();
    tuning.held.max = arg(t, "held").unwrap_or(tuning.held.max);
    tuning.held.max_wait = arg(t, "max_wait").map_or(tuning.held.max_wait, Duration::from_millis);
    tuning.attempts = arg(t, "attempts").unwrap_or(tuning.attempts);
    tuning.breaker.failures = arg(t, "failures").unwrap_or(tuning.breaker.failures);
    tuning.probe.busy = arg(t, "busy").map_or(tuning.probe.busy, Duration::from_millis);
    tuning.probe.idle = arg(t, "idle").map_or(tuning.probe.idle, Duration::from_millis);
    tuning.max_replicas = arg(t, "max_replicas").unwrap_or(tuning.max_replicas);
    tuning.explain_keep = arg(t, "explain").unwrap_or(tuning.explain_keep);
    Input::Tuned(Box::new(tuning))
}

fn knobs(t: &TestCase, spec: &'static Spec) -> Params {
    let knob = |p: &Param| {
        let value: String = arg(t, p.name)?;
        Some((p.name.into(), value.parse().map_or(Given::Word(value), Given::Number)))
    };
    let given: Vec<(String, Given)> = spec.params.iter().filter_map(knob).collect();
    Params::complete(spec, &given).expect("knobs of the policy")
}

/// The chained hashes of the named blocks.
fn chain(t: &TestCase, name: &str) -> Vec<u64> {
    let names = t.args.get(name).map_or(&[][..], |n| n);
    let mut hash = 0;
    let mut next = |n: &String| {
        hash = meridian_base::mix(hash, keyed(1, n.as_bytes()));
        hash
    };
    names.iter().map(&mut next).collect()
}

/// A list of models.
fn models(t: &TestCase, name: &str) -> Option<Vec<ModelId>> {
    let all = t.args.get(name)?;
    Some(all.iter().map(|id| ModelId(id.parse().expect("a model is a number"))).collect())
}

fn request(t: &TestCase) -> Request {
    let blocks = chain(t, "blocks");
    let prompt_tokens = arg(t, "prompt").unwrap_or(16 * blocks.len() as u32 + 4);
    Request {
        id: RequestId(arg(t, "id").expect("a request has an id")),
        model: ModelId(arg(t, "model").unwrap_or(0)),
        tenant: arg(t, "tenant").unwrap_or(0),
        priority: arg::<String>(t, "priority")
            .map_or(Priority::Normal, |word| Priority::of(&word).expect("is a priority")),
        key: arg(t, "key").unwrap_or(0),
        blocks,
        prompt_tokens,
        max_tokens: arg(t, "max_tokens"),
        deadline: ms(t, "deadline"),
        session: arg(t, "session"),
        pinned: arg(t, "pinned").map(ReplicaId),
        streams: arg(t, "streams").unwrap_or(true),
        hops: arg(t, "hops").unwrap_or(0),
        peers: arg(t, "peers").unwrap_or(u64::MAX),
        splits: t.args.contains_key("splits"),
        here: !t.args.contains_key("away"),
        residence: peers::residence(arg(t, "places")),
        elsewhere: t.args.contains_key("elsewhere"),
        died: t.args.contains_key("died"),
        awaited: t.args.contains_key("awaited"),
        scale_from_zero: arg(t, "zero").map(Duration::from_millis),
        ..Request::plain(RequestId(0), ModelId(0))
    }
}

fn pool(t: &TestCase) -> Pool {
    let role = arg::<String>(t, "role").unwrap_or("both".to_owned());
    Pool {
        role: *Role::ALL.iter().find(|known| known.word() == role).expect("is a role"),
        partner: arg(t, "partner").unwrap_or(0),
        rack: arg(t, "rack").unwrap_or(0),
    }
}

fn outcome(t: &TestCase) -> Outcome {
    match arg::<String>(t, "outcome").as_deref() {
        None | Some("done") => Outcome::Done,
        Some("full") => Outcome::Full,
        Some("no_room") => Outcome::NoRoom,
        Some("error") => Outcome::ReplicaError,
        Some("engine") => Outcome::EngineError,
        Some("died") => Outcome::Died,
        Some("unreached") => Outcome::Unreached,
        Some("client") => Outcome::ClientError,
        Some("not_served") => Outcome::NotServed,
        Some("no_kv") => Outcome::NoKv,
        Some(other) => panic!("{other} is not an outcome"),
    }
}

fn usage(t: &TestCase) -> Option<Usage> {
    arg(t, "prompt").map(|prompt_tokens| Usage {
        prompt_tokens,
        cached_tokens: arg(t, "cached"),
        completion_tokens: 1,
        prefill_us: None,
    })
}

fn input(t: &TestCase, now: Time) -> Input {
    let replica = || ReplicaId(arg(t, "r").expect("names a replica"));
    let id = || RequestId(arg(t, "id").expect("names a request"));
    match t.directive.as_str() {
        "join" => Input::Joined {
            id: replica(),
            spec: ReplicaSpec {
                models: models(t, "models").unwrap_or(vec![ModelId(0)]),
                kv_tokens: arg(t, "kv"),
                slots: arg(t, "slots"),
                weight: 1,
                rtt: Duration::from_millis(arg(t, "rtt").unwrap_or(0)),
                place: peers::place(arg(t, "place").unwrap_or(0)),
                pool: pool(t),
            },
        },
        "drain" => Input::Draining(replica()),
        "resume" => Input::Resumed(replica()),
        "configure" => configured(t),
        "leave" => Input::Left(replica()),
        "report" => Input::Reported {
            id: replica(),
            asked: ms(t, "asked").unwrap_or(now),
            load: Load {
                pending: arg(t, "pending"),
                running: arg(t, "running"),
                kv_used: arg(t, "kv"),
                kv_tokens: None,
            },
        },
        "adapters" => Input::Adapters {
            id: replica(),
            report: AdapterReport {
                listed: models(t, "listed").unwrap_or_default(),
                slots: arg(t, "slots").unwrap_or(0),
                running: models(t, "running").unwrap_or_default(),
                waiting: models(t, "waiting").unwrap_or_default(),
            },
        },
        "contexts" => {
            let lengths = t.args.get("of").map_or(&[][..], |all| all);
            let lengths = lengths.iter().map(|one| one.parse().expect("tokens"));
            let models = (0..).map(ModelId);
            Input::Contexts { id: replica(), contexts: models.zip(lengths).collect() }
        }
        "pause" => {
            let pause = Duration::from_millis(arg(t, "for").expect("names a time"));
            Input::Paused { id: replica(), pause }
        }
        "miss" => Input::ProbeFailed(replica()),
        "alive" => Input::Alive { id: replica(), asked: ms(t, "asked").unwrap_or(now) },
        "arrive" => Input::Arrived(request(t)),
        "first" => Input::FirstToken(id()),
        "prefilled" => Input::Prefilled { id: id(), usage: usage(t) },
        "prefill-failed" => Input::PrefillFailed { id: id(), outcome: outcome(t) },
        "cancel" => Input::Cancelled(id()),
        "finish" => Input::Finished {
            id: id(),
            outcome: outcome(t),
            retry: t.args.contains_key("retry"),
            usage: usage(t),
            extended: t.args.contains_key("blocks").then(|| chain(t, "blocks")),
            served: arg(t, "served").map(ReplicaId),
        },
        _ => peers::input(t),
    }
}

impl Region {
    fn run(&mut self, t: &TestCase) -> String {
        if let Some(at) = ms(t, "at") {
            assert!(at >= self.now, "time never goes back");
            self.now = at;
        }
        match t.directive.as_str() {
            "state" => return self.state(),
            "links" => return self.links(arg(t, "from"), arg(t, "to")),
            "terms" => return self.terms(arg(t, "id").expect("names a request")),
            "peers" => return peers::table(&self.routing),
            "digest_of_ours" => return peers::digest(&self.routing.digest()),
            "why" => return self.why(arg(t, "id").expect("names a request")),
            "endings" => return self.endings(arg(t, "id").expect("names a request")),
            "due" => return self.due(),
            "totals" => return self.totals(),
            "needed" => return self.needed(ReplicaId(arg(t, "r").expect("names a replica"))),
            "tick" => self.routing.handle_timeout(self.now),
            "busy" => self.busy(t),
            "tune" => self.routing.handle(self.now, tuned(t, self.routing.config())),
            _ => self.routing.handle(self.now, input(t, self.now)),
        }
        self.routing.check_invariants();
        self.outputs()
    }

    /// Other clients' requests run at a replica.
    fn busy(&mut self, t: &TestCase) {
        let id = ReplicaId(arg(t, "r").expect("names a replica"));
        let load = Load { pending: Some(0), running: arg(t, "running"), ..Load::default() };
        for _ in 0..AGREEING {
            self.routing.handle(self.now, Input::Reported { id, asked: self.now, load });
        }
    }

    fn outputs(&mut self) -> String {
        let mut out = String::new();
        while let Some(output) = self.routing.poll() {
            match output {
                Output::Dispatch { id, replica, prefill, why, matched_tokens, attempt } => {
                    let prefill = prefill.map_or(String::new(), |from| format!("{from} -> "));
                    writeln!(
                        out,
                        "{id} -> {prefill}{replica}: {why:?}, matched {matched_tokens}, attempt {attempt}"
                    )
                }
                Output::Held(id) => writeln!(out, "{id} held"),
                Output::Reject { id, why, retry_after } => {
                    writeln!(out, "{id} rejected: {why:?}, retry after {} s", retry_after.as_secs())
                }
                Output::Forward { id, peer, why, matched_tokens, attempt } => {
                    writeln!(
                        out,
                        "{id} => {peer}: {why:?}, matched {matched_tokens}, attempt {attempt}"
                    )
                }
                Output::Steal { from, count } => writeln!(out, "steal {count} from {from}"),
                Output::Probe(id) => writeln!(out, "probe {id}"),
                Output::Down(id) => writeln!(out, "{id} is down"),
                Output::Up(id) => writeln!(out, "{id} is up"),
                Output::Share(record) => writeln!(out, "share {record:?}"),
            }
            .expect("strings take writes");
        }
        if out.is_empty() { "(nothing)\n".to_owned() } else { out }
    }

    fn state(&self) -> String {
        let mut out =
            format!("held {}, active {}\n", self.routing.held_len(), self.routing.active_len());
        for id in self.routing.replicas().ids() {
            let s = self.routing.replicas().status(*id, self.now).expect("is listed");
            let r = s.row;
            writeln!(
                out,
                "{id} {:?} breaker {}: outstanding {} pending {} running {} front {:.0} closed {:?} drift {}",
                s.state, s.breaker.name(), r.outstanding, r.pending, r.running, r.front_tokens, r.closed, s.drift,
            )
            .expect("strings take writes");
            if r.moving_tokens > 0.0 || r.held_tokens > 0.0 {
                out.pop();
                writeln!(out, " held {:.0} moving {:.0}", r.held_tokens, r.moving_tokens)
                    .expect("strings take writes");
            }
        }
        out
    }

    /// The pace of KV between two replicas, or the mean.
    fn links(&self, from: Option<u16>, to: Option<u16>) -> String {
        let end = |id| {
            let pool = self.routing.replicas().spec(ReplicaId(id)).expect("is there").pool;
            (ReplicaId(id), pool)
        };
        let links = self.routing.links();
        let pace = from.zip(to).map_or(links.mean(), |(a, b)| links.pace(end(a), end(b)));
        format!("{:.1} ms and {:.4} ms a token\n", pace.fixed_ms, pace.ms_per_token)
    }

    /// The terms of the newest decision's candidates.
    fn terms(&self, id: u64) -> String {
        let d = self.routing.explain(RequestId(id)).expect("a decision is kept");
        let mut out = String::new();
        for c in &d.candidates {
            let terms = self.routing.terms(c, d);
            let terms: Vec<_> = terms.iter().map(|(name, ms)| format!("{name} {ms:.1}")).collect();
            let role = c.row.pool.role.word();
            writeln!(out, "{} {role}: {}", c.replica, terms.join(", "))
                .expect("strings take writes");
        }
        out
    }

    fn totals(&self) -> String {
        let mut out = String::new();
        for id in self.routing.replicas().ids() {
            let status = self.routing.replicas().status(*id, self.now).expect("is listed");
            let t = status.totals;
            writeln!(out, "{id} done {} failed {} full {}", t.done, t.failed, t.full)
                .expect("strings take writes");
        }
        out
    }

    fn needed(&self, id: ReplicaId) -> String {
        let status = self.routing.replicas().status(id, self.now).expect("is listed");
        format!("{}\n", status.own_outstanding + status.legs)
    }

    /// When to call the machine next.
    fn due(&self) -> String {
        let due = self.routing.poll_timeout().map(|at| at.as_nanos() as f64 / 1e6);
        due.map_or("never\n".to_owned(), |ms| format!("at {ms} ms\n"))
    }

    /// How the kept decisions about a request ended, oldest first.
    fn endings(&self, id: u64) -> String {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let mut lines: Vec<String> = Vec::new();
        for d in self.routing.decisions().filter(|d| d.id == RequestId(id)) {
            let to = d.pick.map_or("nothing".to_owned(), |(target, _)| format!("{target:?}"));
            let first =
                d.first_token.map_or(String::new(), |t| format!(", first token {} ms", ms(t)));
            let ending = d.ending.map_or("in progress".to_owned(), |(ending, after)| {
                format!("{ending:?} after {} ms", ms(after))
            });
            let retried = if d.retried { ", retried" } else { "" };
            lines.push(format!("attempt {} at {to}: {ending}{first}{retried}\n", d.attempt));
        }
        lines.reverse();
        lines.concat()
    }

    fn why(&self, id: u64) -> String {
        let Some(d) = self.routing.explain(RequestId(id)) else {
            return "no decision kept\n".to_owned();
        };
        let resumed = if d.resumed { ", resumed" } else { "" };
        let mut out = format!("pick {:?}{resumed}\n", d.pick);
        for c in &d.candidates {
            writeln!(
                out,
                "{} matched {:.0} ineligible {:?}",
                c.replica, c.matched_tokens, c.ineligible
            )
            .expect("strings take writes");
        }
        out + &peers::candidates(d)
    }
}

// Each file tests one behaviour of the machine, in narrated steps.
#[test]
fn scenarios() {
    datadriven::walk("tests/scenarios/machine", |file| {
        let mut region_now: Option<Region> = None;
        file.run(|t| {
            if t.directive == "region" {
                region_now = Some(region(t));
                return "ok\n".to_owned();
            }
            region_now.as_mut().expect("a scenario begins with `region`").run(t)
        });
    });
}
