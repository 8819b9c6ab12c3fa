//! The scenario commands for peers.
//!
//! - `region ... [topology=two_layer|local|waterfall|continent] [above=X] [tau=N] [tau_own=no]
//!   [peer_stale=MS] [remotes=N]`
//! - `peer p=N [rtt=MS] [far]` joins, `unpeer p=N` leaves
//! - `digest p=N sent=N [held=N] [rtt=MS] [util=X] [part]` with one replica a line: `r=N` and then
//!   `full`, or figures (`front=`, `running=`, `outstanding=`, `outstanding_tokens=`, `pending=`,
//!   `util=`, `kv_free=`, `kv=`, `slots=`, `speed=`); without lines, one idle replica
//! - places have numbers, and `places=BITS` is a list of them: `digest` takes those of the peer's
//!   replicas, `atlas` those in the configuration, `arrive` those that a rule permits
//! - `stolen p=N count=N`: the peer asks for this many
//! - `arrive` takes `hops=N peers=BITS elsewhere`, `finish` takes `served=N`
//! - `peers` prints the table, `digest_of_ours` the digest that this region would send

use std::fmt::Write;
use std::sync::Arc;

use datadriven::TestCase;
use meridian_base::residency::{Atlas, Place, Residence, Rule, Term};
use meridian_base::{Duration, PeerId, ReplicaId};
use meridian_routing::{
    Decision, Digest, Input, Pace, PeerReplica, PeerSpec, Peering, Pool, Role, Routing, Topology,
};

use crate::region::arg;

pub(crate) fn topology(t: &TestCase) -> Topology {
    let above = arg(t, "above").unwrap_or(0.8);
    match arg::<String>(t, "topology").as_deref() {
        None | Some("two_layer") => Topology::TwoLayer,
        Some("local") => Topology::Local,
        Some("waterfall") => Topology::Waterfall { above },
        Some("continent") => Topology::Continent { above },
        Some(other) => panic!("{other} is not a topology"),
    }
}

pub(crate) fn peering(t: &TestCase) -> Peering {
    let base = Peering::default();
    Peering {
        tau: arg(t, "tau").unwrap_or(base.tau),
        tau_own: arg::<String>(t, "tau_own").is_none_or(|w| w != "no"),
        stale: arg(t, "peer_stale").map_or(base.stale, Duration::from_millis),
        most_replicas: arg(t, "remotes").unwrap_or(base.most_replicas),
        ..base
    }
}

/// The place with a number: a region of that name.
pub(crate) fn place(number: u8) -> Arc<Place> {
    Arc::new(Place::region(&number.to_string()))
}

fn places(bits: u64) -> impl Iterator<Item = Arc<Place>> {
    (0..64).filter(move |at| bits & 1 << at != 0).map(place)
}

/// A rule that permits these places; none without.
pub(crate) fn residence(bits: Option<u64>) -> Residence {
    let run_in = |bits| places(bits).map(|place| Term::Region(place.region.clone())).collect();
    let rule = |bits| Rule { name: "kept".to_owned(), run_in: run_in(bits), ..Rule::default() };
    let mut residence = Residence::default();
    residence.add(bits.map(rule));
    residence
}

pub(crate) fn input(t: &TestCase) -> Input {
    if t.directive == "atlas" {
        let known = places(arg(t, "places").expect("places=BITS")).map(|place| (*place).clone());
        return Input::Atlas(Arc::new(Atlas { places: known.collect(), ..Atlas::default() }));
    }
    let peer = PeerId(arg(t, "p").expect("names a peer"));
    let millis = |name: &str| arg::<f64>(t, name).map(|ms| Duration::from_secs_f64(ms / 1e3));
    match t.directive.as_str() {
        "peer" => Input::PeerJoined {
            id: peer,
            spec: PeerSpec {
                rtt: millis("rtt").unwrap_or(Duration::ZERO),
                near: !t.args.contains_key("far"),
                name_hash: u64::from(peer.0),
            },
        },
        "unpeer" => Input::PeerLeft(peer),
        "digest" => Input::Digested {
            peer,
            sent: arg(t, "sent").expect("sent=N"),
            rtt: millis("rtt"),
            digest: told(t).into(),
        },
        "stolen" => Input::StealAsked { by: peer, count: arg(t, "count").expect("count=N") },
        other => panic!("{other} is not a command"),
    }
}

fn told(t: &TestCase) -> Digest {
    let mut replicas: Vec<PeerReplica> = t.input.lines().map(peer_replica).collect();
    if replicas.is_empty() {
        replicas.push(peer_replica("r=0"));
    }
    Digest {
        held: arg(t, "held").unwrap_or(0),
        eligible: replicas.iter().filter(|r| r.eligible && r.pool.role.answers()).count() as u32,
        usable: replicas.iter().filter(|r| r.pool.role.answers()).count() as u32,
        utilisation: arg(t, "util").unwrap_or(0.0),
        kv_tokens: replicas.iter().map(|r| r.kv_tokens as u64).sum(),
        learned_ms_per_token: 0.0,
        pace: replicas
            .iter()
            .any(|r| r.pool.role == Role::Prefill)
            .then_some(Pace { fixed_ms: 5.0, ms_per_token: 0.02 }),
        whole: !t.args.contains_key("part"),
        places: places(arg(t, "places").unwrap_or(0)).collect(),
        replicas,
    }
}

fn peer_replica(line: &str) -> PeerReplica {
    let mut replica = PeerReplica {
        id: ReplicaId(0),
        eligible: true,
        room: 100_000.0,
        front_tokens: 0.0,
        running: 0,
        outstanding: 0,
        outstanding_tokens: 0.0,
        reported_pending: 0,
        utilisation: 0.0,
        kv_used: 0.0,
        kv_free: 100_000.0,
        kv_tokens: 100_000.0,
        ms_per_token: 0.1,
        step_slope_ms: 0.1,
        trust: 1.0,
        free_slots: u32::MAX,
        pool: Pool::default(),
    };
    for field in line.split_whitespace() {
        let (name, value) = field.split_once('=').unwrap_or((field, "0"));
        let n: f32 = value.parse().expect("a number");
        match name {
            "prefill" => replica.pool.role = Role::Prefill,
            "decode" => replica.pool.role = Role::Decode,
            "r" => replica.id = ReplicaId(n as u16),
            "full" => (replica.eligible, replica.room) = (false, -1.0),
            "front" => replica.front_tokens = n,
            "running" => replica.running = n as u32,
            "outstanding" => replica.outstanding = n as u32,
            "outstanding_tokens" => replica.outstanding_tokens = n,
            "pending" => replica.reported_pending = n as u32,
            "util" => replica.utilisation = n,
            "kv_free" => (replica.kv_free, replica.room) = (n, n),
            "kv" => replica.kv_tokens = n,
            "slots" => replica.free_slots = n as u32,
            "speed" => replica.ms_per_token = n,
            _ => panic!("no such field: {name}"),
        }
    }
    replica
}

pub(crate) fn table(routing: &Routing) -> String {
    let mut out = String::new();
    for id in routing.peers().ids() {
        let (row, totals) = (routing.peers().row(*id), routing.peers().totals(*id));
        let (row, totals) = (row.expect("is listed"), totals.expect("is listed"));
        writeln!(
            out,
            "{id} rtt {:.1} (least {:.1}): held {} eligible {} outstanding {} since {}, done {} failed {} full {}",
            row.rtt_ms, row.min_rtt_ms, row.held, row.eligible, row.outstanding, row.since,
            totals.done, totals.failed, totals.full,
        )
        .expect("strings take writes");
        for r in &row.replicas {
            writeln!(out, "  {} own {} of {:.0} tokens", r.told.id, r.own, r.own_tokens)
                .expect("strings take writes");
        }
    }
    out
}

pub(crate) fn digest(d: &Digest) -> String {
    let mut out = format!(
        "held {}, {} of {} eligible, utilisation {:.2}, {} KV tokens, whole {}\n",
        d.held, d.eligible, d.usable, d.utilisation, d.kv_tokens, d.whole
    );
    let names: Vec<&str> = d.places.iter().map(|place| place.region.as_str()).collect();
    writeln!(out, "places {}", names.join(", ")).expect("strings take writes");
    for r in &d.replicas {
        writeln!(
            out,
            "{} eligible {} room {:.0} front {:.0} running {} outstanding {}",
            r.id, r.eligible, r.room, r.front_tokens, r.running, r.outstanding
        )
        .expect("strings take writes");
    }
    out
}

pub(crate) fn candidates(d: &Decision) -> String {
    let mut out = String::new();
    for p in &d.peers {
        writeln!(
            out,
            "{} matched {:.0} unavailable {:?} since {}",
            p.peer, p.matched_tokens, p.unavailable, p.since
        )
        .expect("strings take writes");
    }
    out
}
