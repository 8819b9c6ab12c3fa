//! Builds the digest that the region sends to its peers.

use alloc::vec::Vec;
use meridian_base::{Digest, PeerReplica, Pool, ReplicaId};

use super::Routing;
use crate::places::Places;
use crate::row::Row;
use crate::why::Ineligible;

impl Routing {
    /// This region's digest now.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut digest = Digest { held: self.queue.waiting(), ..Digest::default() };
        let rooms = self.fleet.rooms();
        let mut used = 0.0;
        let (mut learned, mut speeds) = (0, 0.0);
        let mut places = 0_u64;
        for id in self.fleet.ids().iter().copied() {
            let row = self.fleet.row(id);
            let kv_tokens = self.fleet.replicas().kv_tokens(id);
            let replica = peer_replica(id, row, rooms[id.index()], kv_tokens);
            let answers = row.pool.role.answers();
            digest.eligible += u32::from(replica.eligible && answers);
            if answers && matches!(row.closed, None | Some(Ineligible::Full)) {
                digest.usable += 1;
                used += row.utilisation;
                places |= self.place_bit(id);
            }
            digest.kv_tokens += kv_tokens.unwrap_or(0);
            if self.fleet.replicas().is_learned(id) {
                learned += 1;
                speeds += row.ms_per_token;
            }
            digest.replicas.push(replica);
        }
        digest.utilisation = if digest.usable == 0 { 1.0 } else { used / digest.usable as f32 };
        digest.learned_ms_per_token = speeds / (learned.max(1) as f32);
        digest.pace = self.fleet.has_prefills().then(|| self.fleet.links().mean());
        digest.places = self.regions.places_named(places);
        let most = usize::from(self.config.peering.most_replicas);
        digest.whole = digest.replicas.len() <= most;
        if !digest.whole {
            digest.replicas = best_of(digest.replicas, most);
        }
        digest
    }

    /// The bit of a replica's place; none if the place has no number, as no rule permits it.
    fn place_bit(&self, id: ReplicaId) -> u64 {
        let number = self.fleet.get(id).map(|replica| replica.place);
        number.filter(|number| Places::is_numbered(*number)).map_or(0, |number| 1 << number)
    }
}

/// The `most` best replicas, in ascending id. Those that answer and those that only prefill keep
/// their shares: a prefill replica runs no replies, and would always be among the best.
fn best_of(all: Vec<PeerReplica>, most: usize) -> Vec<PeerReplica> {
    let n = all.len();
    let (mut answers, mut prefills): (Vec<PeerReplica>, Vec<PeerReplica>) =
        all.into_iter().partition(|replica| replica.pool.role.answers());
    let share = (most * prefills.len()).div_ceil(n);
    keep_best(&mut prefills, share);
    keep_best(&mut answers, most - share);
    answers.append(&mut prefills);
    answers.sort_unstable_by_key(|replica| replica.id);
    answers
}

fn keep_best(replicas: &mut Vec<PeerReplica>, most: usize) {
    let load = |r: &PeerReplica| r.ms_per_token * r.front_tokens + r.running as f32;
    let worse = |r: &PeerReplica| (!r.eligible, load(r));
    if replicas.len() > most {
        replicas.select_nth_unstable_by(most, |a, b| {
            let (x, y) = (worse(a), worse(b));
            x.0.cmp(&y.0).then(x.1.total_cmp(&y.1)).then(a.id.cmp(&b.id))
        });
        replicas.truncate(most);
    }
}

/// A replica as the peers see it.
fn peer_replica(id: ReplicaId, row: &Row, room: f32, kv_tokens: Option<u64>) -> PeerReplica {
    PeerReplica {
        id,
        pool: Pool { rack: 0, ..row.pool },
        eligible: room > 0.0,
        room,
        front_tokens: row.front_tokens,
        running: row.running,
        outstanding: row.outstanding,
        outstanding_tokens: row.outstanding_tokens,
        reported_pending: row.reported_pending,
        utilisation: row.utilisation,
        kv_used: row.kv_used,
        kv_free: row.kv_free,
        kv_tokens: kv_tokens.unwrap_or(0) as f32,
        ms_per_token: row.ms_per_token,
        step_slope_ms: row.step_slope_ms,
        trust: row.trust,
        free_slots: row.free_slots,
    }
}
