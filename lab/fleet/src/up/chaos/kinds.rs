//! The decks: every kind of fault that comes by chance, with the times that it may last.
//!
//! Processes are suspended for about as long as others need to notice, and for shorter and longer: a
//! probe's timeout and three of them, `peers.gone`, the lease.

use meridian_base::Rng;
use meridian_protocol::admin::Role;

use super::super::order::{ALL, Act, What};
use super::deck::{Deck, DeckKind, DeckLine, Draw};
use super::kv::PREFILL;
use super::schedule::FOUND;
use super::siblings::{self, SIBLING_REGIONS};
use super::wait::Moment::{self, Any, Computing, Fetching, Holding, Streaming};

const REGIONS: [&str; 3] = ["us", "eu", "asia"];
const REPLICAS: usize = 4;

/// Faults of replicas, gateways, the control plane and links. They leave the fleet able to serve every
/// request eventually.
pub(super) static RANDOM: Deck = Deck { kinds: RANDOM_KINDS, gap: [3.0, 5.5], in_turn: false };

static RANDOM_KINDS: &[DeckKind] = &[
    DeckKind { name: "replica killed", times: 2, ..REPLICA },
    DeckKind { name: "replica suspended", times: 3, act: Act::Stop, lasts: stop, ..REPLICA },
    DeckKind { name: "replica restarted", act: Act::Restart, ..REPLICA },
    DeckKind {
        name: "replica sent SIGTERM while suspended",
        act: Act::Stop,
        lasts: stop,
        more: |d| vec![d.line(d.lasts / 2.0, Act::End)],
        ..REPLICA
    },
    DeckKind { name: "replica fails every second request", times: 2, act: Act::Fail, ..ASKED },
    DeckKind { name: "replica tells errors inside answers", times: 2, act: Act::Tell, ..ASKED },
    DeckKind { name: "replica closes used connections", times: 2, act: Act::Close, ..ASKED },
    DeckKind {
        name: "replica makes no progress",
        times: 2,
        act: Act::Stall,
        lasts: stop,
        ..REPLICA
    },
    DeckKind { name: "gateway killed", ..GATEWAY },
    DeckKind { name: "gateway suspended", times: 2, ..SUSPENDED },
    DeckKind { name: "gateway restarted", act: Act::Restart, ..GATEWAY },
    DeckKind {
        name: "gateway suspended while it drains",
        act: Act::End,
        more: |d| vec![d.line(0.05, Act::Stop)],
        ..SUSPENDED
    },
    DeckKind { name: "gateway reloaded (SIGHUP)", act: Act::Reload, ..GATEWAY },
    DeckKind { name: "gateway's configuration edited", act: Act::Edit, ..GATEWAY },
    DeckKind {
        name: "gateway edited and reloaded while suspended",
        act: Act::Stop,
        lasts: |_, _| 1.0,
        more: |d| vec![d.line(0.2, Act::Edit), d.line(0.3, Act::Reload)],
        ..GATEWAY
    },
    DeckKind { name: "control plane killed", ..CONTROL },
    DeckKind { name: "control plane suspended", act: Act::Stop, lasts: stop, ..CONTROL },
    DeckKind { name: "control plane restarted", act: Act::Restart, ..CONTROL },
    DeckKind { name: "link cut both ways", act: Act::Cut, silences: true, ..LINK },
    DeckKind {
        name: "link cut one way",
        part: |rng| link(rng, '>'),
        act: Act::Cut,
        silences: true,
        ..LINK
    },
    DeckKind { name: "link reset", ..LINK },
    DeckKind { name: "link slow", act: Act::Slow, ..LINK },
    DeckKind {
        name: "region restarted, one process after the other",
        act: Act::Restart,
        more: replicas,
        // Its gateway for 5 s, its replicas for 6 s.
        settle: |what| if what == What::Gateway { 1.6 } else { 2.6 },
        dead: None,
        stops: &[],
        ..GATEWAY
    },
];

const REPLICA: DeckKind = DeckKind {
    name: "",
    times: 1,
    what: What::Replica,
    part: |rng| replica(REGIONS[rng.below(REGIONS.len())], rng.below(REPLICAS)),
    dead: Some([1.0, 6.0]),
    stops: &[0.3, 0.9, 1.2, 2.8, 3.4, 4.2, 8.0],
    act: Act::Kill,
    lasts: |dead, _| dead,
    more: |_| Vec::new(),
    // A gateway that is back takes over its replicas and connects to its peers.
    settle: |what| if what == What::Gateway { 3.0 } else { 1.0 },
    silences: false,
    spares: None,
    moment: None,
};

/// A replica that answers its probes, for long enough to be judged by the share of its failures.
const ASKED: DeckKind = DeckKind { dead: Some([4.0, 12.0]), ..REPLICA };

const GATEWAY: DeckKind = DeckKind {
    what: What::Gateway,
    part: |rng| REGIONS[rng.below(REGIONS.len())].to_owned(),
    dead: Some([1.0, 8.0]),
    stops: &[0.5, 1.8, 2.2, 3.0, 5.5, 9.0],
    ..REPLICA
};

const SUSPENDED: DeckKind = DeckKind { act: Act::Stop, lasts: stop, silences: true, ..GATEWAY };

const CONTROL: DeckKind = DeckKind {
    what: What::Control,
    part: |_| "control".to_owned(),
    stops: GATEWAY.stops,
    ..REPLICA
};

const LINK: DeckKind = DeckKind {
    what: What::Link,
    part: |rng| link(rng, '/'),
    dead: Some([1.0, 7.0]),
    stops: &[],
    ..REPLICA
};

/// Faults of gateways with others of their region, of the links between those, and of replicas.
pub(super) static SIBLINGS: Deck = Deck { kinds: SIBLINGS_KINDS, gap: [3.0, 5.5], in_turn: false };

static SIBLINGS_KINDS: &[DeckKind] = &[
    DeckKind { name: "gateway killed", times: 3, ..SIBLING },
    DeckKind { name: "gateway suspended", times: 3, ..SUSPENDED_SIBLING },
    DeckKind { name: "gateway restarted", times: 2, act: Act::Restart, ..SIBLING },
    DeckKind {
        name: "gateways of a region restarted in turn",
        part: |rng| SIBLING_REGIONS[rng.below(SIBLING_REGIONS.len())].to_owned(),
        act: Act::Restart,
        more: others_in_turn,
        dead: None,
        stops: &[],
        ..SIBLING
    },
    DeckKind {
        name: "gateway suspended while it drains",
        act: Act::End,
        more: |d| vec![d.line(0.05, Act::Stop)],
        ..SUSPENDED_SIBLING
    },
    DeckKind { name: "gateway cut off", times: 3, part: sibling, ..BETWEEN_SIBLINGS },
    DeckKind { name: "gateway's links reset", part: sibling, act: Act::Kill, ..BETWEEN_SIBLINGS },
    DeckKind { name: "link between gateways cut both ways", times: 2, ..BETWEEN_SIBLINGS },
    DeckKind {
        name: "link between gateways cut one way",
        times: 2,
        part: |rng| between_siblings(rng, '>'),
        ..BETWEEN_SIBLINGS
    },
    DeckKind { name: "link between gateways slow", act: Act::Slow, ..BETWEEN_SIBLINGS },
    DeckKind { name: "replica killed", part: sibling_replica, ..REPLICA },
    DeckKind {
        name: "replica suspended",
        part: sibling_replica,
        act: Act::Stop,
        lasts: stop,
        ..REPLICA
    },
    DeckKind { name: "control plane killed", ..CONTROL },
];

const SIBLING: DeckKind = DeckKind { part: sibling, ..GATEWAY };
const SUSPENDED_SIBLING: DeckKind = DeckKind { part: sibling, ..SUSPENDED };
/// For less and more than `peers.gone`.
const BETWEEN_SIBLINGS: DeckKind =
    DeckKind { part: |rng| between_siblings(rng, '/'), act: Act::Cut, silences: true, ..LINK };

/// Faults of an etcd of three members, of three control planes and of gateways. The registry can be
/// changed at some control plane, and each client has a gateway. The exception is a lost registry: all
/// members are dead for some seconds, while all control planes run.
pub(super) static REGISTRY: Deck = Deck { kinds: REGISTRY_KINDS, gap: [2.0, 4.0], in_turn: false };

static REGISTRY_KINDS: &[DeckKind] = &[
    DeckKind { name: "etcd member killed", times: 2, ..ETCD },
    DeckKind { name: "etcd member suspended", times: 2, act: Act::Stop, lasts: stop, ..ETCD },
    DeckKind { name: "etcd member slow", act: Act::Slow, ..ETCD },
    DeckKind {
        name: "all etcd members killed",
        part: |rng| {
            rng.below(REGIONS.len());
            ALL.to_owned()
        },
        // Longer than others, so that changes are refused meanwhile.
        lasts: |dead, _| dead + 4.0,
        spares: Some(What::Control),
        ..ETCD
    },
    DeckKind { name: "control plane killed", times: 2, ..PLANE },
    DeckKind { name: "control plane suspended", times: 2, act: Act::Stop, lasts: stop, ..PLANE },
    DeckKind { name: "gateway killed", what: What::Gateway, ..REGION },
    DeckKind {
        name: "gateway suspended",
        what: What::Gateway,
        act: Act::Stop,
        lasts: stop,
        silences: true,
        ..REGION
    },
    DeckKind { name: "region killed", ..REGION },
];

const ETCD: DeckKind = DeckKind {
    what: What::Etcd,
    part: |rng| format!("etcd-{}", 1 + rng.below(REGIONS.len())),
    // Shorter than a lease, about as long, and longer.
    stops: &[0.5, 1.8, 2.2, 3.0, 5.5, 8.0],
    // The part catches up.
    settle: |_| 2.0,
    ..REPLICA
};

const PLANE: DeckKind = DeckKind {
    what: What::Control,
    part: |rng| format!("control-{}", 1 + rng.below(REGIONS.len())),
    ..ETCD
};

const REGION: DeckKind = DeckKind { what: What::Region, part: GATEWAY.part, ..ETCD };

/// Faults of prefill and decode replicas, each at a moment of a request, one after the other.
pub(super) static POOLS: Deck = Deck { kinds: POOLS_KINDS, gap: [0.3, 1.5], in_turn: true };

static POOLS_KINDS: &[DeckKind] = &[
    DeckKind { name: "prefill killed before its answer", ..COMPUTING },
    DeckKind { name: "prefill killed after its answer", ..HOLDING },
    DeckKind { name: "decode killed before its first token", ..FETCHING },
    DeckKind {
        name: "decode killed in mid-stream",
        moment: at(Role::Decode, Streaming),
        ..FETCHING
    },
    DeckKind { name: "prefill suspended", act: Act::Stop, dead: STOPPED, ..COMPUTING },
    DeckKind { name: "prefill suspended with held KV", act: Act::Stop, dead: STOPPED, ..HOLDING },
    DeckKind { name: "decode suspended", act: Act::Stop, dead: STOPPED, ..FETCHING },
    DeckKind { name: "both suspended", act: Act::Stop, dead: STOPPED, ..BOTH },
    DeckKind { name: "both killed", ..BOTH },
    DeckKind {
        name: "prefill restarted",
        act: Act::Restart,
        moment: at(Role::Prefill, Any),
        ..HOLDING
    },
    DeckKind {
        name: "decode restarted",
        act: Act::Restart,
        moment: at(Role::Decode, Any),
        ..FETCHING
    },
    DeckKind { name: "KV path cut", act: Act::Cut, dead: Some([2.0, 7.0]), ..PATH },
    DeckKind { name: "KV path reset", ..PATH },
    // Longer than the lease: the gateway resumes with a prefill's answer whose KV is gone. It does not
    // use the parameters, and the decode replica computes the prompt.
    DeckKind { name: "lease expired", act: Act::Stop, dead: Some([4.5, 5.5]), ..BETWEEN_LEGS },
    DeckKind { name: "gateway killed between legs", dead: Some([0.5, 1.5]), ..BETWEEN_LEGS },
];

const COMPUTING: DeckKind = DeckKind {
    part: |_| FOUND.to_owned(),
    dead: Some([1.0, 3.0]),
    stops: &[],
    settle: |_| 0.0,
    moment: at(Role::Prefill, Computing),
    ..REPLICA
};
const HOLDING: DeckKind = DeckKind { moment: at(Role::Prefill, Holding), ..COMPUTING };
const FETCHING: DeckKind = DeckKind { moment: at(Role::Decode, Fetching), ..COMPUTING };
/// A prefill replica, and the decode replica that was found.
const BOTH: DeckKind = DeckKind {
    part: |rng| format!("engine-{}", rng.below(PREFILL as usize)),
    more: |d| Draw { name: FOUND.to_owned(), ..*d }.lines(),
    ..FETCHING
};
const PATH: DeckKind = DeckKind { what: What::Path, part: |_| "us".to_owned(), ..FETCHING };
const BETWEEN_LEGS: DeckKind =
    DeckKind { what: What::Gateway, part: |_| "us".to_owned(), silences: true, ..COMPUTING };

/// How long replicas with a role are suspended.
const STOPPED: Option<[f64; 2]> = Some([0.5, 5.0]);

const fn at(role: Role, moment: Moment) -> Option<(Role, Moment)> {
    Some((role, moment))
}

/// Until the end of a suspension.
fn stop(_dead: f64, stop: f64) -> f64 {
    stop
}

/// Each replica of a gateway's region, one after the other.
fn replicas(d: &Draw) -> Vec<DeckLine> {
    let one = |nth| Draw { what: What::Replica, name: replica(&d.name, nth), ..*d };
    (0..REPLICAS).map(|nth| one(nth).line(1.0 + 0.8 * nth as f64, d.act)).collect()
}

/// Each further gateway of a region, one after the other. Each may be told everything before the next
/// one restarts.
fn others_in_turn(d: &Draw) -> Vec<DeckLine> {
    let one = |nth| Draw { what: What::Gateway, name: siblings::name(&d.name, nth), ..*d };
    (1..siblings::GATEWAYS).map(|nth| one(nth).line(3.0 * nth as f64, d.act)).collect()
}

fn sibling(rng: &mut Rng) -> String {
    let region = SIBLING_REGIONS[rng.below(SIBLING_REGIONS.len())];
    siblings::name(region, rng.below(siblings::GATEWAYS))
}

fn between_siblings(rng: &mut Rng, sign: char) -> String {
    let region = SIBLING_REGIONS[rng.below(SIBLING_REGIONS.len())];
    let from = rng.below(siblings::GATEWAYS);
    let to = (from + 1 + rng.below(siblings::GATEWAYS - 1)) % siblings::GATEWAYS;
    format!("{}{sign}{}", siblings::name(region, from), siblings::name(region, to))
}

fn sibling_replica(rng: &mut Rng) -> String {
    let region = SIBLING_REGIONS[rng.below(SIBLING_REGIONS.len())];
    replica(region, rng.below(siblings::REPLICAS))
}

fn replica(region: &str, nth: usize) -> String {
    format!("{region}-engine-{nth}")
}

fn link(rng: &mut Rng, sign: char) -> String {
    let from = rng.below(REGIONS.len());
    let to = (from + 1 + rng.below(REGIONS.len() - 1)) % REGIONS.len();
    format!("{}{sign}{}", REGIONS[from], REGIONS[to])
}
