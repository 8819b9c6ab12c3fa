//! The digest: what a region tells its peers of itself, a few dozen bytes a replica.
//!
//! SkyWalker's heartbeat carries two numbers, the replicas that are not full and the length of
//! the queue (section 3.3, Listing 1 lines 9-15). Rules that weigh a far replica against a near
//! one need what they know of a near one, so the digest also carries the figures of each replica.
//! A huge region names its best ones and sums up the rest.
//!
//! Deliberately not here: when a digest is sent and how it travels, which is the driver's.

use alloc::sync::Arc;
use alloc::vec::Vec;
use meridian_base::ReplicaId;

use crate::machine::Routing;
use crate::places::Places;
use crate::replica::Row;
use crate::residency::Place;

/// One region as its peers see it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Digest {
    /// Requests held in its gateway.
    pub held: u32,
    /// Replicas that may be given another request.
    pub eligible: u32,
    /// Replicas that take requests at all, full ones included.
    pub usable: u32,
    /// Mean utilisation of the usable replicas, 0 to 1; 1 without any.
    pub utilisation: f32,
    /// KV size of all its replicas in tokens, where known.
    pub kv_tokens: u64,
    /// Mean prefill time of the replicas whose answers taught it, ms a token; 0 without any.
    pub learned_ms_per_token: f32,
    /// Its replicas in the order of their ids; in a huge region the best ones.
    pub replicas: Vec<Remote>,
    /// Whether `replicas` leaves none out.
    pub whole: bool,
    /// The places of its usable replicas: rules of peers' requests are held against these.
    pub places: Vec<Arc<Place>>,
}

/// One replica of a peer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remote {
    /// The peer's own id of it.
    pub id: ReplicaId,
    /// Whether it may be given another request.
    pub eligible: bool,
    /// The most unmatched prompt tokens that it has room for; negative when it has none.
    pub room: f32,
    /// Prefill tokens in front.
    pub front_tokens: f32,
    /// Requests in its batch.
    pub running: u32,
    /// Requests sent there that have not ended.
    pub outstanding: u32,
    /// Prompt tokens of those.
    pub outstanding_tokens: f32,
    /// Pending as its engine reported it.
    pub reported_pending: u32,
    /// Smoothed utilisation, 0 to 1.
    pub utilisation: f32,
    /// Share of KV in use, 0 to 1.
    pub kv_used: f32,
    /// KV tokens free for new work; infinite where unknown.
    pub kv_free: f32,
    /// KV size in tokens; 0 where unknown.
    pub kv_tokens: f32,
    /// Calibrated prefill time, ms a token.
    pub ms_per_token: f32,
    /// Weight of inferred prefix matches there, 0 to 1.
    pub trust: f32,
}

impl Remote {
    fn of(id: ReplicaId, row: &Row, room: f32, kv_tokens: Option<u64>) -> Remote {
        Remote {
            id,
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
            trust: row.trust,
        }
    }
}

impl Routing {
    /// What the peers shall know of this region now.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut digest = Digest { held: self.held.len(), ..Digest::default() };
        let rooms = self.replicas.rooms();
        let mut used = 0.0;
        let (mut learned, mut speeds) = (0, 0.0);
        let mut places = 0_u64;
        for id in self.replicas.ids().iter().copied() {
            let row = self.replicas.row(id);
            let kv_tokens = self.replicas.kv_tokens(id);
            let remote = Remote::of(id, row, rooms[id.index()], kv_tokens);
            digest.eligible += u32::from(remote.eligible);
            if matches!(row.closed, None | Some(crate::why::Ineligible::Full)) {
                digest.usable += 1;
                used += row.utilisation;
                places |= self.place_bit(id);
            }
            digest.kv_tokens += kv_tokens.unwrap_or(0);
            if self.replicas.get(id).is_some_and(|r| r.speed.is_learned()) {
                learned += 1;
                speeds += row.ms_per_token;
            }
            digest.replicas.push(remote);
        }
        digest.utilisation = if digest.usable == 0 { 1.0 } else { used / digest.usable as f32 };
        digest.learned_ms_per_token = speeds / (learned.max(1) as f32);
        digest.places = self.places.named(places);
        let most = usize::from(self.config.peering.most_remotes);
        digest.whole = digest.replicas.len() <= most;
        if !digest.whole {
            let load = |r: &Remote| r.ms_per_token * r.front_tokens + r.running as f32;
            let worse = |r: &Remote| (!r.eligible, load(r));
            digest.replicas.select_nth_unstable_by(most, |a, b| {
                let (x, y) = (worse(a), worse(b));
                x.0.cmp(&y.0).then(x.1.total_cmp(&y.1)).then(a.id.cmp(&b.id))
            });
            digest.replicas.truncate(most);
            digest.replicas.sort_unstable_by_key(|remote| remote.id);
        }
        digest
    }

    /// The bit of a replica's place; none where it has no number, as no rule permits it.
    fn place_bit(&self, id: ReplicaId) -> u64 {
        let number = self.replicas.get(id).map(|replica| replica.place);
        number.filter(|number| Places::is_numbered(*number)).map_or(0, |number| 1 << number)
    }
}
