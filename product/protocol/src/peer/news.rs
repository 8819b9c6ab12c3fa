//! News: a digest as changes since the previous one, and the conversion from and to the protocol.

use std::sync::Arc;

use bytes::BufMut;
use meridian_base::ReplicaId;
use meridian_base::residency::Place;
use meridian_base::{Pace, PeerReplica, Pool, Role};
use prost::Message;

use super::bounds::{MOST_REPLICAS, PeerError, amount, at_most, number, open, row, share};
use super::changes::Changes;
use super::{places, proto};

/// Protobuf's marker of a length-delimited field.
const LENGTH_DELIMITED: u8 = 2;

/// The state of a region, as changes since earlier news.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct News {
    /// Increases with each message.
    pub version: u64,
    /// The version that the changes apply to; 0 for none.
    pub base: u64,
    /// Requests queued in the gateway.
    pub held: u32,
    /// Replicas that can take another request now.
    pub eligible: u32,
    /// Replicas in service.
    pub usable: u32,
    /// Mean utilisation of the replicas in service, 0 to 1.
    pub utilisation: f32,
    /// KV size of all replicas in tokens, as far as known.
    pub kv_tokens: u64,
    /// Mean learned prefill time of the replicas, ms a token; 0 if none is learned yet.
    pub learned_ms_per_token: f32,
    /// Pace of KV between its replicas.
    pub pace: Option<Pace>,
    /// Whether every replica is included.
    pub whole: bool,
    /// Changes of its replicas.
    pub changes: Arc<Changes>,
    /// Places of its usable replicas; none if unchanged.
    pub places: Option<Vec<Arc<Place>>>,
}

impl News {
    /// Writes the news as a field of a message. The order of fields is free, so the fields that are
    /// the same for all followers come last, as encoded bytes.
    pub(super) fn write(&self, number: u8, to: &mut impl BufMut) {
        let (own, changes) = (self.own(), self.changes.bytes());
        to.put_u8(number << 3 | LENGTH_DELIMITED);
        let len = own.encoded_len() + changes.len();
        prost::encode_length_delimiter(len, to).expect("the buffer grows");
        let room = to.remaining_mut();
        own.encode(to).expect("the buffer grows");
        to.put_slice(changes);
        assert_eq!(room - to.remaining_mut(), len, "a field has the length in front of it");
    }

    /// Everything except the changes of replicas.
    fn own(&self) -> proto::News {
        proto::News {
            version: self.version,
            base: self.base,
            held: self.held,
            eligible: self.eligible,
            usable: self.usable,
            utilisation: clamped(self.utilisation),
            kv_tokens: self.kv_tokens,
            learned_ms_per_token: self.learned_ms_per_token,
            whole: self.whole,
            places: self.places.as_deref().map(places::write),
            kv_fixed_ms: self.pace.map(|pace| pace.fixed_ms),
            kv_ms_per_token: self.pace.map(|pace| pace.ms_per_token),
            changed: Vec::new(),
            gone: Vec::new(),
        }
    }
}

impl TryFrom<proto::News> for News {
    type Error = PeerError;

    fn try_from(news: proto::News) -> Result<News, PeerError> {
        at_most("changed", news.changed.len(), MOST_REPLICAS)?;
        at_most("gone", news.gone.len(), MOST_REPLICAS)?;
        let mut changed = Vec::with_capacity(news.changed.len());
        for replica in &news.changed {
            changed.push(PeerReplica::try_from(replica)?);
        }
        let gone = news.gone.iter().map(|id| row("gone", *id).map(ReplicaId));
        let changes = Changes::new(changed, gone.collect::<Result<_, _>>()?);
        once("changed", changes.changed(), |remote| remote.id)?;
        once("gone", changes.gone(), |id| *id)?;
        Ok(News {
            version: news.version,
            base: news.base,
            held: news.held,
            eligible: news.eligible,
            usable: news.usable,
            utilisation: share("utilisation", news.utilisation)?,
            kv_tokens: news.kv_tokens,
            learned_ms_per_token: amount("learned_ms_per_token", news.learned_ms_per_token)?,
            pace: pace(news.kv_fixed_ms, news.kv_ms_per_token)?,
            whole: news.whole,
            places: news.places.map(places::read).transpose()?,
            changes: Arc::new(changes),
        })
    }
}

/// A pace of KV; both parts or none.
fn pace(fixed: Option<f32>, per_token: Option<f32>) -> Result<Option<Pace>, PeerError> {
    let (Some(fixed), Some(per_token)) = (fixed, per_token) else { return Ok(None) };
    let (fixed_ms, ms_per_token) =
        (amount("kv_fixed_ms", fixed)?, amount("kv_ms_per_token", per_token)?);
    Ok(Some(Pace { fixed_ms, ms_per_token }))
}

/// Refuses a replica that occurs twice in a list ordered by id.
fn once<T>(field: &'static str, list: &[T], id: impl Fn(&T) -> ReplicaId) -> Result<(), PeerError> {
    match list.windows(2).find(|pair| id(&pair[0]) == id(&pair[1])) {
        Some(pair) => Err(PeerError::Twice { field, id: id(&pair[0]).0 }),
        None => Ok(()),
    }
}

/// Clamps a share that smoothing or an engine's rounding pushed over its limit.
fn clamped(share: f32) -> f32 {
    share.clamp(0.0, 1.0)
}

impl From<&PeerReplica> for proto::Replica {
    fn from(remote: &PeerReplica) -> proto::Replica {
        proto::Replica {
            id: remote.id.0.into(),
            eligible: remote.eligible && remote.pool.role.answers(),
            room: remote.room,
            front_tokens: remote.front_tokens,
            running: remote.running,
            outstanding: remote.outstanding,
            outstanding_tokens: remote.outstanding_tokens,
            reported_pending: remote.reported_pending,
            utilisation: clamped(remote.utilisation),
            kv_used: clamped(remote.kv_used),
            kv_free: remote.kv_free.max(0.0),
            kv_tokens: remote.kv_tokens,
            ms_per_token: remote.ms_per_token,
            trust: clamped(remote.trust),
            free_slots: (remote.free_slots < u32::MAX).then_some(remote.free_slots),
            step_slope_ms: Some(remote.step_slope_ms),
            role: proto::Role::from(remote.pool.role).into(),
            partner: remote.pool.partner,
        }
    }
}

impl TryFrom<&proto::Replica> for PeerReplica {
    type Error = PeerError;

    fn try_from(replica: &proto::Replica) -> Result<PeerReplica, PeerError> {
        let role = Role::from(replica.role());
        Ok(PeerReplica {
            id: ReplicaId(row("id", replica.id)?),
            pool: Pool { role, partner: replica.partner, rack: 0 },
            eligible: replica.eligible || !role.answers() && replica.room > 0.0,
            room: number("room", replica.room)?,
            front_tokens: amount("front_tokens", replica.front_tokens)?,
            running: replica.running,
            outstanding: replica.outstanding,
            outstanding_tokens: amount("outstanding_tokens", replica.outstanding_tokens)?,
            reported_pending: replica.reported_pending,
            utilisation: share("utilisation", replica.utilisation)?,
            kv_used: share("kv_used", replica.kv_used)?,
            kv_free: open("kv_free", replica.kv_free)?,
            kv_tokens: amount("kv_tokens", replica.kv_tokens)?,
            ms_per_token: amount("ms_per_token", replica.ms_per_token)?,
            // Without it, the guess that a replica without answers starts from.
            step_slope_ms: amount(
                "step_slope_ms",
                replica.step_slope_ms.unwrap_or(replica.ms_per_token),
            )?,
            trust: share("trust", replica.trust)?,
            free_slots: replica.free_slots.unwrap_or(u32::MAX),
        })
    }
}

impl From<Role> for proto::Role {
    fn from(role: Role) -> proto::Role {
        match role {
            Role::Both => proto::Role::Both,
            Role::Prefill => proto::Role::Prefill,
            Role::Decode => proto::Role::Decode,
        }
    }
}

impl From<proto::Role> for Role {
    fn from(role: proto::Role) -> Role {
        match role {
            proto::Role::Both => Role::Both,
            proto::Role::Prefill => Role::Prefill,
            proto::Role::Decode => Role::Decode,
        }
    }
}
