//! The peer table: the known state of the other regions, and its age.
//!
//! As with replicas, it combines two sources. The peer's digest is complete but old by half a round
//! trip and an interval; this gateway's own forwards since then are current but only ours. A digest
//! includes a forward that left at least one round trip before the digest arrived; younger ones are
//! kept in a list and counted in addition. A digest that is too old is ignored.
//!
//! Deliberately not here: the prefixes cached at a peer (`snapshot.rs`) and the choice of a peer
//! (`second_layer.rs` and the policies).

mod row;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use meridian_base::{Digest, Duration, PeerId, PeerReplica, ReplicaId, RequestId, Time};

pub use self::row::{PeerReplicaRow, PeerRow, PeerTotals};
use crate::topology::{PeerSpec, Peering};
use meridian_base::residency::Place;

/// Most peers: a request's permission is a bit for each.
pub(crate) const MOST: usize = 64;

/// A forward of ours that the newest digest does not include.
#[derive(Clone, Copy, Debug)]
struct Since {
    at: Time,
    id: RequestId,
    meant: Option<ReplicaId>,
    /// Unmatched prompt tokens, until its first token.
    tokens: f32,
    /// KV tokens that it needs.
    need: f32,
}

/// A forward's target and size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    /// The peer's replica that it is meant for, if the policy names one.
    pub(crate) meant: Option<ReplicaId>,
    /// Unmatched tokens of its prompt.
    pub(crate) unmatched: f32,
    /// KV tokens that its reply will take beyond that.
    pub(crate) growth: f32,
}

#[derive(Debug)]
pub(crate) struct Peer {
    row: PeerRow,
    rtt: Duration,
    /// The newest digest's sequence number, and when it arrived.
    heard: Option<(u64, Time)>,
    /// Whether it failed or refused a forward since its newest digest.
    pub(crate) shut: bool,
    /// Whether it was asked for held requests since its newest digest.
    pub(crate) asked: bool,
    since: VecDeque<Since>,
    /// The places of its usable replicas, by its newest digest.
    places: Vec<Arc<Place>>,
    pub(crate) totals: PeerTotals,
    /// Whether a forward exceeded the credit that the policy grants it.
    pub(crate) overdrawn: bool,
}

impl Peer {
    fn new(spec: PeerSpec) -> Peer {
        let mut peer = Peer {
            row: PeerRow::default(),
            rtt: Duration::ZERO,
            heard: None,
            shut: false,
            asked: false,
            since: VecDeque::new(),
            places: Vec::new(),
            totals: PeerTotals::default(),
            overdrawn: false,
        };
        peer.describe(spec);
        peer
    }

    fn describe(&mut self, spec: PeerSpec) {
        (self.row.near, self.row.name_hash) = (spec.near, spec.name_hash);
        if self.heard.is_none() {
            self.rtt = spec.rtt;
            self.row.rtt_ms = spec.rtt.as_secs_f32() * 1e3;
            self.row.min_rtt_ms = self.row.rtt_ms;
        }
    }

    fn measure(&mut self, sample: Duration, gain: f64) {
        let old = self.rtt.as_secs_f64();
        let new = if old == 0.0 {
            sample.as_secs_f64()
        } else {
            old + gain * (sample.as_secs_f64() - old)
        };
        self.rtt = Duration::from_secs_f64(new.max(0.0));
        self.row.rtt_ms = (new * 1e3) as f32;
        let sample_ms = sample.as_secs_f32() * 1e3;
        if old == 0.0 || sample_ms < self.row.min_rtt_ms {
            self.row.min_rtt_ms = sample_ms;
        }
    }

    /// Takes over a digest's figures, and adds our own forwards that it cannot include yet.
    fn take(&mut self, now: Time, digest: &Digest, slot: impl Fn(ReplicaId) -> Option<u16>) {
        let row = &mut self.row;
        (row.held, row.eligible) = (digest.held, digest.eligible);
        (row.usable, row.utilisation) = (digest.usable, digest.utilisation);
        row.replicas.clear();
        let replica = |told: &PeerReplica| PeerReplicaRow {
            told: *told,
            own: 0,
            own_tokens: 0.0,
            own_need: 0.0,
            slot: slot(told.id),
        };
        row.prefills.clear();
        for told in &digest.replicas {
            match told.pool.role.answers() {
                true => row.replicas.push(replica(told)),
                false => row.prefills.push(*told),
            }
        }
        let with_room =
            row.replicas.iter().map(|replica| &replica.told).filter(|told| told.eligible);
        row.free_slots = with_room.clone().fold(0, |sum, told| sum.saturating_add(told.free_slots));
        row.free_tokens = with_room.map(PeerReplica::free_tokens).sum();
        row.pace = digest.pace;
        let rtt = self.rtt;
        while self.since.front().is_some_and(|s| s.at + rtt <= now) {
            self.since.pop_front();
        }
        row.since = self.since.len() as u32;
        row.since_tokens = self.since.iter().map(|since| since.need).sum();
        for since in &self.since {
            if let Some(replica) = replica_of(&mut self.row.replicas, since.meant) {
                replica.own += 1;
                replica.own_tokens += since.tokens;
                replica.own_need += since.need;
            }
        }
    }
}

fn replica_of(
    replicas: &mut [PeerReplicaRow],
    meant: Option<ReplicaId>,
) -> Option<&mut PeerReplicaRow> {
    let meant = meant?;
    replicas.iter_mut().find(|r| r.told.id == meant)
}

/// The peer table.
#[derive(Debug, Default)]
pub struct Peers {
    map: BTreeMap<PeerId, Peer>,
    ids: Vec<PeerId>,
}

impl Peers {
    /// The ids present, ascending.
    #[must_use]
    pub fn ids(&self) -> &[PeerId] {
        &self.ids
    }

    /// Whether there are no peers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// A peer's figures, as a decision reads them.
    #[must_use]
    pub fn row(&self, id: PeerId) -> Option<&PeerRow> {
        self.map.get(&id).map(|p| &p.row)
    }

    /// The places of its usable replicas, by its newest digest.
    #[must_use]
    pub fn places(&self, id: PeerId) -> &[Arc<Place>] {
        self.map.get(&id).map_or(&[], |p| &p.places)
    }

    /// Its counts.
    #[must_use]
    pub fn totals(&self, id: PeerId) -> Option<PeerTotals> {
        self.map.get(&id).map(|p| p.totals)
    }

    /// A table of bare rows, for tests of policies.
    #[doc(hidden)]
    #[must_use]
    pub fn of_rows(rows: Vec<PeerRow>) -> Peers {
        let mut peers = Peers::default();
        let spec = PeerSpec { rtt: Duration::ZERO, near: true, name_hash: 0 };
        for (i, row) in rows.into_iter().enumerate() {
            let id = PeerId(i as u16);
            peers.ids.push(id);
            peers.map.insert(id, Peer { row, ..Peer::new(spec) });
        }
        peers
    }

    pub(crate) fn get(&self, id: PeerId) -> Option<&Peer> {
        self.map.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.map.get_mut(&id)
    }

    pub(crate) fn join(&mut self, id: PeerId, spec: PeerSpec) {
        if id.index() >= MOST {
            return;
        }
        match self.map.get_mut(&id) {
            Some(peer) => peer.describe(spec),
            None => {
                self.map.insert(id, Peer::new(spec));
            }
        }
        self.list();
    }

    pub(crate) fn leave(&mut self, id: PeerId) {
        self.map.remove(&id);
        self.list();
    }

    fn list(&mut self) {
        self.ids = self.map.keys().copied().collect();
        assert!(self.ids.len() <= MOST, "a request's permission has a bit for each peer");
    }

    /// Whether a digest with this sequence number is new.
    pub(crate) fn is_news(&self, id: PeerId, sent: u64) -> bool {
        self.map.get(&id).is_some_and(|p| p.heard.is_none_or(|(last, _)| sent > last))
    }

    /// Applies a new digest; true if its replicas' places changed.
    pub(crate) fn digested(
        &mut self,
        now: Time,
        id: PeerId,
        sent: u64,
        (rtt, gain): (Option<Duration>, f64),
        digest: &Digest,
        slot: impl Fn(ReplicaId) -> Option<u16>,
    ) -> bool {
        let Some(peer) = self.map.get_mut(&id) else { return false };
        if let Some(sample) = rtt {
            peer.measure(sample, gain);
        }
        peer.heard = Some((sent, now));
        peer.shut = false;
        peer.asked = false;
        peer.totals.digests += 1;
        peer.take(now, digest, slot);
        let moved = peer.places != digest.places;
        if moved {
            peer.places.clone_from(&digest.places);
        }
        moved
    }

    /// Records a forward.
    pub(crate) fn sent(&mut self, now: Time, id: PeerId, request: RequestId, sent: Sent) {
        let Some(peer) = self.map.get_mut(&id) else { return };
        let Sent { meant, unmatched: tokens, growth } = sent;
        let need = tokens + growth;
        peer.since.push_back(Since { at: now, id: request, meant, tokens, need });
        peer.row.since += 1;
        peer.row.since_tokens += need;
        peer.row.outstanding += 1;
        peer.totals.forwarded += 1;
        if let Some(replica) = replica_of(&mut peer.row.replicas, meant) {
            replica.own += 1;
            replica.own_tokens += tokens;
            replica.own_need += need;
        }
    }

    /// A forward's prefill is over: it is no longer ahead of other requests.
    pub(crate) fn prefilled(&mut self, id: PeerId, request: RequestId) {
        let Some(peer) = self.map.get_mut(&id) else { return };
        let Some(since) = peer.since.iter_mut().find(|s| s.id == request) else { return };
        let tokens = core::mem::take(&mut since.tokens);
        if let Some(replica) = replica_of(&mut peer.row.replicas, since.meant) {
            replica.own_tokens = (replica.own_tokens - tokens).max(0.0);
        }
    }

    /// A forward ended.
    pub(crate) fn ended(&mut self, id: PeerId, request: RequestId) {
        self.prefilled(id, request);
        if let Some(peer) = self.map.get_mut(&id) {
            assert!(peer.row.outstanding > 0, "forwards to {id} end once");
            peer.row.outstanding -= 1;
        }
    }
}

impl Peer {
    /// Whether its newest digest is still valid, and it has refused no forward since.
    pub(crate) fn is_fresh(&self, now: Time, peering: &Peering) -> bool {
        self.heard.is_some_and(|(_, at)| now.since(at) <= peering.stale) && !self.shut
    }

    /// SkyWalker's rule (Listing 1, line 12): a replica with free capacity, and a short queue.
    pub(crate) fn has_room(&self, own_held: u32, peering: &Peering) -> bool {
        self.row.eligible > 0 && self.row.held <= peering.most_held(own_held)
    }

    /// The newest digest's sequence number, and when it arrived.
    pub(crate) fn heard(&self) -> Option<(u64, Time)> {
        self.heard
    }

    pub(crate) fn row(&self) -> &PeerRow {
        &self.row
    }

    /// Checks one peer's invariants.
    pub(crate) fn check(&self, id: PeerId) {
        assert_eq!(self.row.since as usize, self.since.len(), "{id}'s own forwards are counted");
        let own: u32 = self.row.replicas.iter().map(|r| r.own).sum();
        assert!(own <= self.row.since, "{id}'s replicas have at most what the peer was sent");
        let ordered = self.since.iter().zip(self.since.iter().skip(1)).all(|(a, b)| a.at <= b.at);
        assert!(ordered, "forwards to {id} are in the order of time");
        assert!(!self.overdrawn, "{id} was sent more than its credit");
    }
}
