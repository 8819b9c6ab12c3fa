//! Judges a fleet: the load that its prefill and decode instances serve together.
//!
//! Every prefill instance sends to every decode instance, each in proportion to its capacity.
//! A fleet's goodput is the minimum of the prefill capacity, the decode capacity and the capacity
//! of its fullest link: at that rate, all traffic of all instances (all-reduces, hops and KV) must
//! leave a fifth of every link free. Contention between instances thus counts as a capacity limit;
//! the delay that their transfers cause each other below it does not count.
//!
//! The KV transfer counts once per request, in the TTFT, and not in each token as in the paper's
//! equation 4.

use std::rc::Rc;

use crate::handover::Handing;
use crate::instance::Rated;
use crate::loads::Loads;
use crate::pool::Pool;
use crate::task::Task;
use crate::topology::LinkId;
use crate::transfer::{exposed, parts, transfer};

/// Share of a link that traffic may fill.
pub const FULL: f64 = 0.8;

/// Instances that exchange KV.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    /// The prefill instances.
    pub prefill: Vec<Rc<Rated>>,
    /// The decode instances.
    pub decode: Vec<Rc<Rated>>,
}

/// The bottleneck of a fleet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Prefill.
    Prefill,
    /// Decode.
    Decode,
    /// A link.
    Link(LinkId),
}

/// The performance of a fleet.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Requests a second within both objectives.
    pub goodput: f64,
    /// Capacity of the prefill instances together.
    pub prefill: f64,
    /// Capacity of the decode instances together.
    pub decode: f64,
    /// The bottleneck.
    pub limit: Limit,
    /// The longest time after a prompt until its KV has arrived, in seconds.
    pub handoff: f64,
    /// Mean bytes of one request on each link.
    pub loads: Loads,
}

/// The times that a fleet's requests see, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Mean TTFT.
    pub ttft: f64,
    /// The TTFT that the objective's share of requests stays below.
    pub ttft_within: f64,
    /// TPOT of the slowest instance.
    pub tpot: f64,
}

impl Times {
    /// The times of requests that are never served.
    pub(crate) const NEVER: Times =
        Times { ttft: f64::INFINITY, ttft_within: f64::INFINITY, tpot: f64::INFINITY };
}

impl Fleet {
    /// The times at `rate`, if each prompt goes to the least loaded prefill instance.
    #[must_use]
    pub fn times(&self, task: &Task<'_>, verdict: &Verdict, rate: f64) -> Times {
        self.times_with(task, verdict, rate, Handing::Layers)
    }

    /// The same with another way of handing over KV.
    pub(crate) fn times_with(
        &self,
        task: &Task<'_>,
        verdict: &Verdict,
        rate: f64,
        handing: Handing,
    ) -> Times {
        let Some(pool) = Pool::new(task, self, rate, handing) else { return Times::NEVER };
        let (ttft, ttft_within) = pool.ttft(task.slo.attainment);
        let mut times = Times { ttft, ttft_within, tpot: 0.0 };
        for one in &self.decode {
            times.tpot = times.tpot.max(one.tpot(task, rate * one.rate / verdict.decode));
        }
        times
    }

    /// GPUs in use.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.all().map(|rated| rated.instance.parallel.gpus()).sum()
    }

    /// Every instance.
    pub fn all(&self) -> impl Iterator<Item = &Rc<Rated>> {
        self.prefill.iter().chain(&self.decode)
    }

    /// Its performance; `None` if it serves nothing.
    #[must_use]
    pub fn judged(&self, task: &Task<'_>) -> Option<Verdict> {
        let decode: f64 = self.decode.iter().map(|rated| rated.rate).sum();
        if decode <= 0.0 || self.prefill.is_empty() {
            return None;
        }
        let (mut rates, mut sent) = (Vec::new(), Vec::new());
        let mut worst = 0.0_f64;
        for from in &self.prefill {
            let kv = self.handed_over(task, from)?;
            rates.push(from.rate_with(task, kv.worst));
            sent.push(kv.loads);
            worst = worst.max(kv.worst);
        }
        let prefill: f64 = rates.iter().sum();
        if prefill <= 0.0 {
            return None;
        }
        let mut loads = Loads::default();
        for ((from, rate), kv) in self.prefill.iter().zip(&rates).zip(&sent) {
            loads.merge(&from.loads, rate / prefill);
            loads.merge(kv, rate / prefill);
        }
        for to in &self.decode {
            loads.merge(&to.loads, to.rate / decode);
        }
        let link = loads.slowest(task.topology);
        let carried = link.map_or(f64::INFINITY, |(_, seconds)| FULL / seconds);
        let goodput = prefill.min(decode).min(carried);
        let limit = match link {
            Some((link, _)) if carried < prefill.min(decode) => Limit::Link(link),
            _ if prefill < decode => Limit::Prefill,
            _ => Limit::Decode,
        };
        Some(Verdict { goodput, prefill, decode, limit, handoff: worst, loads })
    }

    /// The KV handover from `from` without contention; `None` if there is no path.
    pub(crate) fn handed_over(&self, task: &Task<'_>, from: &Rated) -> Option<Handed> {
        let layers = parts(task);
        let decode: f64 = self.decode.iter().map(|rated| rated.rate).sum();
        let mut all = Handed::default();
        for to in &self.decode {
            let kv = transfer(task, &from.instance, &to.instance)?;
            let late = exposed(kv.seconds, layers, from.service);
            all.mean += late * to.rate / decode;
            all.worst = all.worst.max(late);
            all.loads.merge(&kv.loads, to.rate / decode);
        }
        Some(all)
    }
}

/// The KV handover to all decode instances.
#[derive(Default)]
pub(crate) struct Handed {
    /// Mean seconds after a prompt, over requests.
    pub(crate) mean: f64,
    /// To the decode instance with the longest time.
    worst: f64,
    /// Bytes of a request on each link.
    pub(crate) loads: Loads,
}
