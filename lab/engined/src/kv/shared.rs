//! An engine's side of all transfers: its identity, its settings and its counts.

use super::link::Link;
use super::outgate::Outgate;
use super::{KvMetrics, LoadFailure, Network, Routes, Transfer};
use crate::Error;
use crate::clock::Clock;
use meridian_engine::{BLOCK_TOKENS, Profile, Usage};
use serde_json::{Value, json};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A prefill leg, whose blocks another engine will fetch.
#[derive(Debug)]
pub(crate) struct Export {
    /// Its `remote_request_id`.
    pub(crate) name: String,
    /// The contents of its prompt's blocks.
    pub(crate) contents: Vec<u64>,
    /// When its first token is due, if it has an objective.
    pub(crate) due: Option<Instant>,
    /// Gets the params of the answer; dropped if no blocks are held.
    pub(crate) reply: oneshot::Sender<Value>,
}

/// What the tasks of all transfers share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The engine's name, by which others know the way to it.
    pub(super) name: String,
    pub(super) engine_id: String,
    address: SocketAddr,
    pub(super) network: Network,
    pub(crate) load_failure: LoadFailure,
    lease: Duration,
    clock: Clock,
    /// The engine's card, by direction.
    pub(super) out: Link,
    pub(super) into: Link,
    pub(super) routes: Routes,
    /// Orders the transfers on `out`; without it they share the card.
    pub(super) gate: Option<Outgate>,
    tp: u32,
    /// KV bytes of a block, of the model and on the socket.
    pub(super) model_bytes: f64,
    pub(super) block_bytes: usize,
    metrics: Mutex<KvMetrics>,
}

/// How long an engine waits for the first answer of another, in model time (vLLM's).
const HANDSHAKE: Duration = Duration::from_secs(5);
/// A transfer without a byte for this long has failed. A busy link adds to it.
const STALLED: Duration = Duration::from_secs(30);
/// Blocks that are sent at a time.
pub(super) const CHUNK: usize = 8;
/// Readers on one link whose turns a transfer waits for.
const READERS: usize = 64;

impl Shared {
    /// The engine's name, and the address of its side channel.
    pub(crate) fn new(
        transfer: &Transfer,
        (name, address): (&str, SocketAddr),
        profile: &Profile,
        clock: Clock,
    ) -> Result<Shared, Error> {
        let model_bytes = profile.model.kv_bytes(1) * f64::from(BLOCK_TOKENS);
        let scale = clock.wall_seconds(Duration::from_secs(1));
        let rate = transfer.link_gbps * 1e9 / 8.0 / scale;
        let link = || Link::new(rate, (&transfer.routes.rates, scale));
        let gate = |policy: &String| Outgate::new(policy, rate, model_bytes);
        let gate = transfer.flow_policy.as_ref().map(gate).transpose()?;
        Ok(Shared {
            name: name.to_owned(),
            engine_id: fresh_id(),
            address,
            network: transfer.network.clone(),
            load_failure: transfer.load_failure,
            lease: transfer.lease,
            clock,
            out: link(),
            into: link(),
            routes: transfer.routes.clone(),
            gate,
            tp: profile.tp,
            model_bytes,
            block_bytes: ((model_bytes * transfer.scale) as usize).max(8),
            metrics: Mutex::new(KvMetrics::new(transfer.role)),
        })
    }

    /// The lease of blocks that are held from now on, in model time.
    pub(crate) fn lease(&self) -> Duration {
        self.lease
    }

    /// The lease after a renewal, from then.
    pub(crate) fn renewed(&self) -> Duration {
        self.lease * 2 / 3
    }

    /// Wall time between two renewals of another engine's lease.
    pub(super) fn heartbeat(&self) -> Duration {
        wall(&self.clock, self.lease / 6)
    }

    /// Wall time within which another engine must answer.
    pub(super) fn handshake(&self) -> Duration {
        wall(&self.clock, HANDSHAKE)
    }

    /// Wall time without a byte after which a transfer has failed.
    pub(super) fn stalled(&self) -> Duration {
        wall(&self.clock, STALLED) + self.out.time(self.model_bytes * (CHUNK * READERS) as f64)
    }

    pub(crate) fn metrics(&self) -> MutexGuard<'_, KvMetrics> {
        // No code that can panic runs under the lock.
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The params in the answer of a prefill leg, which go into the decode leg unchanged.
    pub(crate) fn params(&self, name: &str, blocks: &[u32], tokens: u32, usage: &Usage) -> Value {
        json!({
            "do_remote_prefill": true,
            "do_remote_decode": false,
            "remote_block_ids": [blocks],
            "remote_engine_id": self.engine_id,
            "remote_request_id": name,
            "remote_host": self.address.ip().to_string(),
            "remote_port": self.address.port(),
            "tp_size": self.tp,
            "dcp_size": 1,
            "pp_size": 1,
            "remote_num_tokens": tokens,
            "remote_blocks_expiry_time": null,
            "transfer_mode": "pull",
            "remote_prefill_cached_tokens": usage.cached_tokens,
        })
    }
}

impl Transfer {
    /// # Errors
    /// If a setting is out of range.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        let positive = |value: f64, most: f64| value > 0.0 && value <= most;
        let field = |field, value: String, remedy| Err(Error::Transfer { field, value, remedy });
        let named = self.announce.unwrap_or(self.side_channel);
        if named.ip().is_unspecified() {
            let remedy = "name an address at which other engines reach this one";
            return field("side channel", named.to_string(), remedy);
        }
        if self.announce.is_some_and(|address| address.port() == 0) {
            let remedy = "name the port of the relay: no engine could reach port 0";
            return field("announced side channel", named.to_string(), remedy);
        }
        if self.lease < Duration::from_millis(6) || self.lease > Duration::from_secs(86_400) {
            return field("KV lease", format!("{:?}", self.lease), "use 6 ms to 1 day");
        }
        if !positive(self.scale, 1.0) {
            return field("KV scale", self.scale.to_string(), "use a number above 0, up to 1");
        }
        if !(1e-3..=1e6).contains(&self.link_gbps) {
            return field("KV link", format!("{} Gb/s", self.link_gbps), "use 0.001 to 1000000");
        }
        self.routes.validate()
    }
}

/// Wall time of a model duration, at most a year.
fn wall(clock: &Clock, model: Duration) -> Duration {
    Duration::from_secs_f64(clock.wall_seconds(model).min(31_536_000.0))
}

/// A random UUID: new at each start, so that params of an earlier process are recognized.
fn fresh_id() -> String {
    let [a, b] = [0, 1].map(|word: u8| RandomState::new().hash_one(word));
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        a >> 32,
        (a >> 16) & 0xffff,
        a & 0xfff,
        0x8000 | ((b >> 48) & 0x3fff),
        b & 0xffff_ffff_ffff
    )
}
