//! TTFT objectives: a multiple of a TTFT at low load.
//!
//! One number for all requests makes every long prompt late and every short one early, whatever the
//! network does. So each objective is based on the time that the request's length and matched prefix
//! take in an idle cluster: its fetch, layer after layer in order, its computation, its exchanges at
//! the full rate of the ports, the end of its handoff, the first step of decode. MFS's evaluation
//! (section 6.1) reads as one number, so the mean over all requests is the other base.
//!
//! This is a closed form: it ignores contention between the request's own transfers, which is some
//! percent when its handoff and exchanges overlap.

use meridian_base::Duration;

use super::compute::{Shares, Speed, loads};
use super::exchange::{Routing, Ways};
use super::geometry::Geometry;
use super::patterns::Pattern;
use super::setup::{Base, Pool};

/// A pool in an idle cluster.
pub(crate) struct Idle<'a> {
    pub(crate) geometry: &'a Geometry,
    pub(crate) pool: &'a Pool,
    pub(crate) speed: &'a Speed,
    pub(crate) routing: &'a Routing,
    pub(crate) ways: &'a Ways,
}

impl Idle<'_> {
    /// Each request's TTFT and the base of its objective; `hits` are the tokens that each fetches.
    pub(crate) fn bases(&self, hits: &[u32]) -> Vec<(Duration, Duration)> {
        let asked = self.pool.requests.iter().zip(hits);
        let alone: Vec<Duration> = asked.map(|(one, hit)| self.ttft(one.tokens, *hit)).collect();
        let mean = alone.iter().sum::<Duration>() / alone.len().max(1) as u32;
        let base = |own: Duration| match self.pool.slo.of {
            Base::Own => (own, own),
            Base::Mean => (own, mean),
        };
        alone.into_iter().map(base).collect()
    }

    /// TTFT of a prompt of `tokens`, of which `hit` are fetched.
    fn ttft(&self, tokens: u32, hit: u32) -> Duration {
        let new = tokens - hit;
        let chunks = new.div_ceil(self.pool.batch_tokens);
        let mut now = self.speed.step(1).as_secs_f64();
        let mut line = ObjectiveLine { free: now };
        let mut fetch = ObjectiveLine { free: now };
        let mut before = hit;
        for nth in 0..chunks {
            let chunk = (tokens - before).min(self.pool.batch_tokens);
            let mut shares = Shares::new(self.pool);
            shares.add(self.pool, 0, (before, chunk));
            for layer in 0..self.pool.model.layers as u16 {
                let group = layer / self.pool.kv_layers;
                let layers = self.pool.group(group);
                if nth == 0 && layer == layers.start {
                    now = now.max(fetch.carry(0.0, self.kv_seconds(hit, layers.len())));
                }
                now = self.layer(now, layer, &shares);
                if layer + 1 == layers.end {
                    let all = if nth == 0 { before + chunk } else { chunk };
                    line.carry(now, self.kv_seconds(all, layers.len()));
                }
            }
            before += chunk;
        }
        Duration::from_secs_f64(now.max(line.free)) + self.speed.decode
    }

    fn layer(&self, from: f64, layer: u16, shares: &Shares) -> f64 {
        let attention = self.speed.attention(shares).as_secs_f64();
        let loads = loads(self.pool, shares, self.routing.weights(layer));
        let rest = self.speed.rest(shares, loads).as_secs_f64();
        let exchange = |pattern: Option<Pattern>| {
            pattern.map_or(0.0, |pattern| self.exchange(pattern, layer, shares))
        };
        let all = self.pool.exchanges();
        let attention = attention.max(exchange(all.beside_attention));
        from + attention + rest + (exchange(all.after_attention) + exchange(all.after_rest))
    }

    /// An exchange at the full rate of its busiest port.
    fn exchange(&self, pattern: Pattern, layer: u16, shares: &Shares) -> f64 {
        let found = self.ways.exchange(self.routing, pattern, layer, shares);
        let mut ports = std::collections::BTreeMap::new();
        for (path, bytes) in &found.flows {
            for port in path.ports() {
                *ports.entry(port.0).or_insert(0.0) += bytes;
            }
        }
        let rates = self.geometry.topology.rates();
        let slowest = ports.iter().map(|(port, bytes)| bytes / rates[*port as usize]);
        slowest.fold(found.floor.as_secs_f64(), f64::max)
    }

    /// KV of `tokens` over a card, for this many layers.
    fn kv_seconds(&self, tokens: u32, layers: usize) -> f64 {
        let spread = f64::from(self.pool.spread());
        let bytes = self.routing.kv() * f64::from(tokens) * layers as f64 / spread;
        // GPUs that share a card share its rate.
        let cluster = self.geometry.topology.cluster();
        bytes / cluster.card_rate
    }
}

/// A line that carries one transfer after the other.
#[derive(Debug, Default)]
struct ObjectiveLine {
    free: f64,
}

impl ObjectiveLine {
    /// When a transfer that is ready at `ready` has been carried.
    fn carry(&mut self, ready: f64, seconds: f64) -> f64 {
        self.free = self.free.max(ready) + seconds;
        self.free
    }
}
