//! Stage 2: the exchanges between the ranks of a replica in a layer.
//!
//! Experts: a token goes once to each rank that holds one of its experts (dispatch), and comes back
//! (combine). Experts with tensor-parallel attention: every rank has all tokens, and the ranks'
//! parts of each activation are summed twice ([`super::reduce`]). Sequence: the KV of all tokens
//! passes around the ring, each rank forwarding the others' parts. Traffic inside a server takes
//! NVLink's time without contention; traffic between servers crosses the cards as flows.

use meridian_base::{Duration, Rng, mix};
use meridian_fabric::Path;

use super::compute::Shares;
use super::geometry::{Geometry, Rail, Site};
use super::patterns::Pattern;
use super::reduce::AllReduce;
use super::setup::{Parallel, Pool};

/// Bytes of a number in an activation.
const NUMBER: f64 = 2.0;

/// The figures of one pool that determine the bytes between ranks.
#[derive(Debug)]
pub(crate) struct Routing {
    /// By layer: each rank's share of the experts' load, summing to 1.
    weights: Vec<Vec<f64>>,
    /// Mean number of ranks that a token goes to.
    distinct: f64,
    /// Bytes of a token's activation.
    activation: f64,
    /// Bytes of it, and of a token's KV in one layer, on one lane.
    token: f64,
    kv: f64,
}

impl Routing {
    /// Loads are drawn once a run, lognormal around an even share.
    pub(crate) fn new(pool: &Pool, seed: u64) -> Routing {
        let mut rng = Rng::new(mix(seed, 0x4558_5045_5254));
        let layers = 0..pool.model.layers;
        let weights = layers
            .map(|_| {
                let drawn = (0..pool.ranks).map(|_| match pool.skew > 0.0 {
                    true => rng.lognormal(1.0, pool.skew),
                    false => 1.0,
                });
                let drawn: Vec<f64> = drawn.collect();
                let sum: f64 = drawn.iter().sum();
                assert!(sum > 0.0, "the experts of a layer have no load");
                drawn.into_iter().map(|weight| weight / sum).collect()
            })
            .collect();
        let activation = NUMBER * f64::from(pool.model.hidden);
        Routing {
            weights,
            distinct: distinct(pool),
            activation,
            token: activation / f64::from(pool.tensor),
            kv: pool.model.kv_bytes(pool.tensor) / f64::from(pool.model.layers),
        }
    }

    pub(crate) fn weights(&self, layer: u16) -> &[f64] {
        &self.weights[usize::from(layer)]
    }

    /// KV bytes of a token in one layer, on one lane.
    pub(crate) fn kv(&self) -> f64 {
        self.kv
    }

    /// Bytes that an all-reduce sums.
    fn summed(&self, shares: &Shares) -> f64 {
        shares.tokens() * self.activation
    }

    /// Bytes from rank to rank, on one lane.
    fn bytes(&self, pattern: Pattern, layer: u16, shares: &Shares, from: u32, to: u32) -> f64 {
        let ranks = shares.ranks.len() as u32;
        let sent = |owner: u32, expert: u32| {
            let wants = (self.distinct * self.weights(layer)[expert as usize]).min(1.0);
            shares.ranks[owner as usize].tokens * wants * self.token
        };
        match pattern {
            Pattern::Dispatch => sent(from, to),
            Pattern::Combine => sent(to, from),
            Pattern::Ring if to == (from + 1) % ranks => {
                shares.context * self.kv * f64::from(ranks - 1) / f64::from(ranks)
            }
            Pattern::Ring | Pattern::AllReduce => 0.0,
        }
    }
}

/// Mean number of ranks with one of a token's experts: each is missed by all of them with the same
/// probability.
fn distinct(pool: &Pool) -> f64 {
    let Some(x) = pool.model.experts.filter(|_| pool.parallel == Parallel::Experts) else {
        return 0.0;
    };
    let (count, held) = (f64::from(x.count), f64::from(x.count / pool.ranks.max(1)));
    let missed = (0..x.active).map(f64::from).map(|nth| (count - held - nth) / (count - nth));
    f64::from(pool.ranks) * (1.0 - missed.product::<f64>().max(0.0))
}

/// An exchange: its flows, and its minimum time.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) flows: Vec<(Path, f64)>,
    pub(crate) floor: Duration,
}

/// The paths of one replica's exchanges.
#[derive(Debug)]
pub(crate) struct Ways {
    rails: Vec<Rail>,
    /// By rank: others of the same server.
    near: Vec<Vec<u32>>,
    reduce: AllReduce,
    /// Latency, and NVLink's rate.
    latency: Duration,
    nvlink: f64,
}

impl Ways {
    pub(crate) fn new(geometry: &Geometry, site: Site, pool: &Pool, latency: Duration) -> Ways {
        let server = |rank: u32| geometry.server(site.gpu(rank, 0));
        // An all-reduce has no pairs of ranks.
        let (rails, ranks) = match pool.parallel {
            Parallel::Experts => (geometry.rails(site, pool.ranks), pool.ranks),
            Parallel::Tensor => (geometry.server_ring(site, pool), 0),
            Parallel::Sequence => (geometry.ring(site, pool.ranks), pool.ranks),
        };
        let near = |rank: u32| {
            (0..ranks).filter(|other| *other != rank && server(*other) == server(rank)).collect()
        };
        let near = (0..ranks).map(near).collect();
        let nvlink = geometry.topology.cluster().nvlink_rate;
        let reduce = AllReduce::new(pool, geometry.gpus_of_server());
        Ways { rails, near, reduce, latency, nvlink }
    }

    /// Adds the bytes on each path in a layer, in the order of the rails.
    pub(crate) fn load(
        &self,
        routing: &Routing,
        pattern: Pattern,
        layer: u16,
        shares: &Shares,
        into: &mut Vec<f64>,
    ) {
        into.resize(self.rails.len(), 0.0);
        if pattern == Pattern::AllReduce {
            let bytes = self.reduce.between_servers(routing.summed(shares));
            return into.iter_mut().for_each(|sum| *sum += bytes);
        }
        for (rail, sum) in self.rails.iter().zip(into) {
            for &from in &rail.from {
                *sum += routing.bytes(pattern, layer, shares, from, rail.to);
            }
        }
    }

    pub(crate) fn path(&self, rail: usize) -> &Path {
        &self.rails[rail].path
    }

    /// The flows of one exchange and its minimum time: latency, and NVLink's share.
    pub(crate) fn exchange(
        &self,
        routing: &Routing,
        pattern: Pattern,
        layer: u16,
        shares: &Shares,
    ) -> Exchange {
        let mut bytes = Vec::new();
        self.load(routing, pattern, layer, shares, &mut bytes);
        let flows = self.rails.iter().zip(bytes).filter(|(_, bytes)| *bytes >= 1.0);
        let flows = flows.map(|(rail, bytes)| (rail.path, bytes)).collect();
        let inside = self.inside(routing, pattern, layer, shares);
        Exchange { flows, floor: self.latency + Duration::from_secs_f64(inside / self.nvlink) }
    }

    /// Bytes over the busiest GPU's NVLink.
    fn inside(&self, routing: &Routing, pattern: Pattern, layer: u16, shares: &Shares) -> f64 {
        if pattern == Pattern::AllReduce {
            return self.reduce.inside_server(routing.summed(shares));
        }
        let sent = |rank: usize| {
            let others = self.near[rank].iter();
            let sent = |to: &u32| routing.bytes(pattern, layer, shares, rank as u32, *to);
            others.map(sent).sum::<f64>()
        };
        (0..self.near.len()).map(sent).fold(0.0, f64::max)
    }
}
