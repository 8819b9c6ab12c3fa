//! Gateways: routing machines with a location, a timer, and the ids they assign.

use std::collections::BTreeMap;
use std::sync::Arc;

use meridian_base::residency::Place;
use meridian_base::{Duration, ModelId, PeerId, ReplicaId, Time, mix};
use meridian_routing::{
    Config, IndexSpec, Input, MOST_REPLICA_IDS, PeerSpec, Pool, ProbeConfig, ReplicaSpec, Role,
    Routing,
};

use crate::claims::Claims;
use crate::granularity::indexes;
use crate::heard::Heard;
use crate::network::Network;
use crate::news::{Offer, Shown};
use crate::replica::Replica;
use crate::scenario::{Hardware, News, System, Topology};
use crate::stopped::Stopped;
use crate::twin::Publisher;

/// The one model of a run.
pub(crate) const MODEL: ModelId = ModelId(0);

/// Longer than any run.
const NEVER: Duration = Duration::from_secs(1 << 32);

pub(crate) struct Gateway {
    pub(crate) region: usize,
    pub(crate) machine: Routing,
    pub(crate) up: bool,
    /// Set while it is suspended.
    pub(crate) stopped: Option<Stopped>,
    /// The time of the newest timer event.
    pub(crate) timer: Option<Time>,
    /// The time of the latest timer event entered.
    pub(crate) farthest: Time,
    /// The replicas it knows: indices into the world's list, by the gateway's own id.
    knows: Vec<Option<u32>>,
    /// Its peers: indices into the world's list, by the gateway's own id.
    peers: Vec<u16>,
    /// Digests sent, and when the newest was sent.
    pub(crate) told_digests: u64,
    pub(crate) told_at: Time,
    /// When a twin's process publishes its digests.
    pub(crate) publisher: Publisher,
    /// Records told to each sibling, and what was heard from it, by the sibling's index in the world's
    /// list.
    told_siblings: BTreeMap<u16, u64>,
    heard_siblings: BTreeMap<u16, Heard>,
    /// The probes and digests it has been shown.
    pub(crate) shown: Shown,
    /// The digests that its peers look up.
    pub(crate) offer: Offer,
    /// How much it overestimated each replica.
    pub(crate) claims: Claims,
    seed: u64,
    /// Blocks that all replicas of the world can hold, which the index must never exceed.
    sizes: Sizes,
}

impl Gateway {
    pub(crate) fn new(
        region: usize,
        system: &System,
        sizes: Sizes,
        seed: u64,
        at: usize,
    ) -> Gateway {
        let seed = mix(seed, 0x4741_5445 + at as u64);
        Gateway {
            region,
            machine: Routing::new(config(system, sizes), seed),
            up: true,
            stopped: None,
            timer: None,
            farthest: Time::ZERO,
            knows: Vec::new(),
            peers: Vec::new(),
            told_digests: 0,
            told_at: Time::ZERO,
            publisher: Publisher::default(),
            told_siblings: BTreeMap::new(),
            heard_siblings: BTreeMap::new(),
            shown: Shown::default(),
            offer: Offer::default(),
            claims: Claims::default(),
            seed,
            sizes,
        }
    }

    /// Restarts with another seed.
    pub(crate) fn reseed(&mut self, system: &System, seed: u64) {
        self.seed = seed;
        self.restart(system);
    }

    /// Discards all state, like a restarted process.
    pub(crate) fn restart(&mut self, system: &System) {
        self.machine = Routing::new(config(system, self.sizes), self.seed);
        self.timer = None;
        self.stopped = None;
        self.knows.clear();
        self.heard_siblings.clear();
        self.shown = Shown::default();
        self.offer = self.offer.restarted();
    }

    /// The number of the next record to a sibling.
    pub(crate) fn told_sibling(&mut self, to: u16) -> u64 {
        let told = self.told_siblings.entry(to).or_default();
        *told += 1;
        *told
    }

    /// The number of the newest record to a sibling.
    pub(crate) fn told_to(&self, sibling: u16) -> u64 {
        self.told_siblings.get(&sibling).copied().unwrap_or(0)
    }

    /// What it heard from a sibling.
    pub(crate) fn heard(&self, from: u16) -> Heard {
        self.heard_siblings.get(&from).copied().unwrap_or_default()
    }

    /// The same, to change.
    pub(crate) fn heard_mut(&mut self, from: u16) -> &mut Heard {
        self.heard_siblings.entry(from).or_default()
    }

    /// Whether it is dead or suspended.
    pub(crate) fn is_silent(&self) -> bool {
        !self.up || self.stopped.is_some()
    }

    /// Its own id of a replica.
    pub(crate) fn id_of(&self, replica: u32) -> Option<ReplicaId> {
        let at = self.knows.iter().position(|known| *known == Some(replica))?;
        Some(ReplicaId(at as u16))
    }

    /// The replica of its own id, by the world's list.
    pub(crate) fn replica_of(&self, id: ReplicaId) -> Option<u32> {
        self.knows.get(id.index()).copied().flatten()
    }

    /// The replicas it knows: indices into the world's list, by the gateway's own id.
    pub(crate) fn knows(&self) -> &[Option<u32>] {
        &self.knows
    }

    /// Its peers: indices into the world's list, by the gateway's own id.
    pub(crate) fn peers(&self) -> &[u16] {
        &self.peers
    }

    /// The peer of its own id, by the world's list.
    pub(crate) fn peer_of(&self, id: PeerId) -> Option<u16> {
        self.peers.get(id.index()).copied()
    }

    /// Forgets its peers, before it meets them again.
    pub(crate) fn leave_peers(&mut self) {
        self.peers.clear();
    }

    /// Adds a replica.
    pub(crate) fn learn(
        &mut self,
        now: Time,
        at: u32,
        (replica, place): (&Replica, Arc<Place>),
        network: &Network,
    ) {
        if self.id_of(at).is_some() {
            return;
        }
        let free = self.knows.iter().position(Option::is_none).unwrap_or(self.knows.len());
        assert!(free < usize::from(MOST_REPLICA_IDS), "a gateway has {free} replicas");
        if free == self.knows.len() {
            self.knows.push(None);
        }
        self.knows[free] = Some(at);
        self.shown.replicas_changed();
        self.claims.begin(ReplicaId(free as u16));
        let region = replica.hardware.region;
        let engine = &replica.hardware.engine;
        let own = u64::from(engine.kv_blocks) * u64::from(meridian_engine::BLOCK_TOKENS);
        let rtt =
            if region == self.region { Duration::ZERO } else { network.rtt(self.region, region) };
        let spec = ReplicaSpec {
            models: vec![MODEL],
            kv_tokens: replica.hardware.kv_tokens.or(Some(own)),
            slots: None,
            weight: 1,
            rtt,
            place,
            pool: pool(&replica.hardware),
        };
        self.machine.handle(now, Input::Joined { id: ReplicaId(free as u16), spec });
    }

    /// Removes a replica.
    pub(crate) fn forget(&mut self, now: Time, replica: u32) {
        let Some(id) = self.id_of(replica) else { return };
        self.machine.handle(now, Input::Left(id));
        self.knows[id.index()] = None;
        self.shown.replicas_changed();
    }

    /// Adds a peer.
    pub(crate) fn meet(&mut self, now: Time, peer: u16, rtt: Duration, near: bool) {
        assert!(!self.peers.contains(&peer), "gateway {peer} is a peer already");
        let id = PeerId(self.peers.len() as u16);
        self.peers.push(peer);
        let spec = PeerSpec { rtt, near, name_hash: mix(0x5045_4552, u64::from(peer)) };
        self.machine.handle(now, Input::PeerJoined { id, spec });
    }

    /// All its peers, one bit each.
    pub(crate) fn all_peers(&self) -> u64 {
        u64::MAX.checked_shl(self.peers.len() as u32).map_or(u64::MAX, |others| !others)
    }

    /// Its own id of a peer.
    pub(crate) fn peer_id(&self, peer: u16) -> Option<PeerId> {
        self.peers.iter().position(|p| *p == peer).map(|at| PeerId(at as u16))
    }
}

/// A replica's labels. KV stays in its region, so only replicas of one region are partners.
fn pool(hardware: &Hardware) -> Pool {
    let partner = match hardware.role {
        Role::Both => 0,
        _ => hardware.region as u32 + 1,
    };
    let rack = hardware.transfer.rack.map_or(0, |rack| rack as u16 + 1);
    Pool { role: hardware.role, partner, rack }
}

/// The sizes of a gateway's tables.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    replicas: u16,
    /// Entries of the prefix index: the blocks of each replica's KV, as the machine bounds it.
    entries: usize,
}

impl Sizes {
    /// For a gateway that may have all of `replicas`, and at most `most`.
    pub(crate) fn new(system: &System, replicas: &[Replica], most: usize) -> Sizes {
        let each = replicas.iter().map(|replica| most_blocks(system, replica).unwrap_or(0));
        let entries = most.saturating_mul(each.max().unwrap_or(0));
        Sizes { replicas: u16::try_from(most).unwrap_or(MOST_REPLICA_IDS), entries }
    }
}

/// The most blocks that an index may hold of a replica: its own bound, or the replica's KV
/// capacity, configured or real. `None` without an index.
pub(crate) fn most_blocks(system: &System, replica: &Replica) -> Option<usize> {
    let hardware = &replica.hardware;
    let own = u64::from(hardware.engine.kv_blocks) * u64::from(meridian_engine::BLOCK_TOKENS);
    let tokens = hardware.kv_tokens.unwrap_or(own).max(own) as usize;
    let most = |spec: IndexSpec| {
        let block_tokens = (spec.block_bytes / 4).max(1);
        spec.per_target_blocks.unwrap_or(tokens / block_tokens + 1)
    };
    indexes(system).map(most).max()
}

fn config(system: &System, sizes: Sizes) -> Config {
    let topology = match system.topology {
        Topology::TwoLayer => meridian_routing::Topology::TwoLayer,
        Topology::Waterfall { above } => meridian_routing::Topology::Waterfall { above },
        Topology::Continent { above } => meridian_routing::Topology::Continent { above },
        _ => meridian_routing::Topology::Local,
    };
    // Machines do not send probes if probes are looked up.
    let probe = match system.news {
        News::Eager => system.probe,
        News::Lazy => ProbeConfig { busy: NEVER, idle: NEVER, ..system.probe },
    };
    Config {
        params: system.params.clone(),
        admission: system.admission,
        shadow: system.shadow.clone(),
        held: system.held,
        probe,
        topology,
        has_siblings: system.siblings.is_some() && system.gateways > 1,
        explain_keep: 0,
        explain_candidates: 0,
        index_entries: sizes.entries,
        max_replicas: sizes.replicas,
        ..Config::new(system.policy)
    }
}
