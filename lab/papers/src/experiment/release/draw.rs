//! Draws workloads, fleets and round trips by the hash of a commit.
//!
//! Each workload has a random stream of its own, so their number does not change the first ones.

use std::collections::BTreeMap;

use meridian_base::{Rng, mix};
use meridian_engine::BLOCK_TOKENS;
use meridian_protocol::policy::{Policy, Scalar};
use meridian_protocol::units::Span;
use meridian_workload::find_generator;

use crate::experiment::build;
use crate::experiment::spec::{
    Bursts, Chance, Degraded, Draw, Fleet, Group, Half, Load, Measure, Range, Ranges, Workload,
};

/// The model of all replicas.
const MODEL: &str = "llama-3.1-8b";
/// Share of the smallest replica's KV that a prompt with its reply may fill.
const MOST_OF_KV: u32 = 4;
/// Most tokens of a request, whatever the KV.
const MOST_TOKENS: u32 = 65_536;

/// A workload on its own fleet.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Drawn {
    pub(super) workload: Workload,
    pub(super) fleet: Fleet,
    /// A replica that is slow in the middle of the window, and how many times as long its steps
    /// take.
    pub(super) slow: Option<(usize, f64)>,
}

impl Drawn {
    /// With the capacity of its fleet, a window after `warmup`, and its slow replica.
    pub(crate) fn measured(mut self, capacity: f64, warmup: Span, draw: &Draw) -> Drawn {
        let [least, most] = draw.window.map(|span| span.0.as_secs_f64());
        let window = (draw.requests / capacity).clamp(least, most).round();
        self.workload.loads.iter_mut().for_each(|load| load.capacity = Some(capacity));
        self.workload.measure = Some(Measure { warmup, window: Span::secs(window as u64) });
        let at = |share: f64| Span::secs((warmup.0.as_secs_f64() + share * window).round() as u64);
        if let Some((replica, factor)) = self.slow {
            self.fleet.degraded = vec![Degraded { replica, factor, at: at(0.3), until: at(0.7) }];
        }
        self
    }
}

/// `count` workloads drawn by `hash` from the ranges of `draw`, for this many regions.
pub(super) fn all(draw: &Draw, hash: &str, count: u32, regions: usize) -> Vec<Drawn> {
    let seed = hash.bytes().fold(0, |seed, byte| mix(seed, u64::from(byte)));
    let order = shuffled(draw.generators.len(), &mut Rng::new(mix(seed, u64::MAX)));
    let one = |nth: u32| {
        let ranges = &draw.generators[order[nth as usize % order.len()]];
        Stream { rng: Rng::new(mix(seed, u64::from(nth))) }.workload(draw, nth, ranges, regions)
    };
    (0..count).map(one).collect()
}

fn shuffled(count: usize, rng: &mut Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, rng.below(last + 1));
    }
    order
}

struct Stream {
    rng: Rng,
}

impl Stream {
    /// A number of the range, evenly by its logarithm; evenly if the range begins at 0.
    fn number(&mut self, [from, to]: Range) -> f64 {
        let whole = from.fract() == 0.0 && to.fract() == 0.0;
        // The ends of a range of whole numbers are as likely as the numbers between them.
        let (low, high) = if whole { (from - 0.5, to + 0.5) } else { (from, to) };
        let at = self.rng.unit();
        let drawn = if low > 0.0 {
            low * libm::exp(at * libm::log(high / low))
        } else {
            low + at * (high - low)
        };
        let rounded = if whole { drawn.round() } else { (drawn * 100.0).round() / 100.0 };
        rounded.clamp(from, to)
    }

    fn chance(&mut self, of: Chance) -> Option<f64> {
        let (has, number) = (self.rng.unit() < of.chance, self.number(of.range));
        has.then_some(number)
    }

    fn workload(&mut self, draw: &Draw, nth: u32, ranges: &Ranges, regions: usize) -> Drawn {
        let name = format!("{:02}-{}", nth + 1, ranges.name);
        let fleet = self.fleet(draw, format!("fleet-{:02}", nth + 1), regions);
        let slow = self.chance(draw.degraded);
        let slow = slow.map(|factor| (self.rng.below(fleet.replicas()), factor));
        let share = (0..regions).map(|_| self.number(draw.share)).collect();
        let bursts = self.chance(draw.bursts).map(|times| Bursts {
            times,
            length: Span::secs(30),
            every: Span::secs(120),
        });
        let load = Load {
            generator: Some(self.generator(ranges, &fleet)),
            trace: None,
            clients: None,
            rate: None,
            capacity: Some(1.0),
            share: Some(share),
            bursts,
            ramp: Span::secs(10),
            rise: None,
            may_run_in: Default::default(),
            programs: None,
        };
        let workload = Workload {
            name,
            loads: vec![load],
            fleets: vec![fleet.name.clone()],
            systems: Vec::new(),
            faults: Vec::new(),
            measure: None,
            half: Some(Half::Judging),
            level: None,
            rtt_ms: Some(self.round_trips(draw, regions)),
        };
        Drawn { workload, fleet, slow }
    }

    fn round_trips(&mut self, draw: &Draw, regions: usize) -> Vec<Vec<f64>> {
        let mut rtt_ms = vec![vec![0.0; regions]; regions];
        let pairs = (0..regions).flat_map(|a| std::iter::once(a).chain(0..a).map(move |b| (a, b)));
        for (a, b) in pairs {
            let range = if a == b { draw.local_rtt_ms } else { draw.rtt_ms };
            let drawn = self.number(range);
            (rtt_ms[a][b], rtt_ms[b][a]) = (drawn, drawn);
        }
        rtt_ms
    }

    /// Replicas by region, each with a GPU of the drawn set.
    fn fleet(&mut self, draw: &Draw, name: String, regions: usize) -> Fleet {
        let set = &draw.gpus[self.rng.below(draw.gpus.len())];
        let slots = self.chance(draw.slots).map(|slots| slots as u32);
        let kv_tokens = self.chance(draw.kv_tokens).map(|tokens| tokens as u32);
        let region = |_| {
            let mut of = vec![0; set.len()];
            for _ in 0..self.number(draw.replicas) as u32 {
                of[self.rng.below(set.len())] += 1;
            }
            of
        };
        let by_region: Vec<Vec<u32>> = (0..regions).map(region).collect();
        let count = |gpu: usize| by_region.iter().map(|of| of[gpu]).collect::<Vec<u32>>();
        let used = set.iter().enumerate().map(|(nth, gpu)| (gpu, count(nth)));
        let used = used.filter(|(_, count)| count.iter().any(|n| *n > 0));
        let group = |(gpu, count): (&String, Vec<u32>)| {
            let mut group = Group {
                gpu: gpu.clone(),
                model: MODEL.to_owned(),
                tp: 1,
                count,
                kv_tokens: None,
                max_num_batched_tokens: None,
                max_num_seqs: slots,
                jitter: 0.0,
                speed: None,
                llamacpp_context: None,
                pool: None,
            };
            group.kv_tokens = kv_tokens.map(|tokens| tokens.min(kv_of(&group)));
            group
        };
        Fleet { name, groups: used.map(group).collect(), degraded: Vec::new(), racks: Vec::new() }
    }

    /// The generator with its knobs. Requests are bounded so that the smallest replica holds them.
    fn generator(&mut self, ranges: &Ranges, fleet: &Fleet) -> Policy {
        let mut params = BTreeMap::new();
        for (knob, range) in &ranges.knobs {
            params.insert(knob.clone(), Scalar::Number(self.number(*range)));
        }
        let bounded = find_generator(&ranges.name)
            .is_some_and(|generator| generator.knobs().any(|knob| knob.name == "max_context"));
        if bounded {
            let kv = fleet.groups.iter().map(kv_of).min().unwrap_or(MOST_TOKENS);
            let most = (kv / MOST_OF_KV).min(MOST_TOKENS);
            params.insert("max_context".to_owned(), Scalar::Number(f64::from(most)));
        }
        Policy { name: ranges.name.clone(), params }
    }
}

/// KV tokens of a replica; 0 if the group is impossible, which the check of the plan reports.
fn kv_of(group: &Group) -> u32 {
    build::engine(group).map_or(0, |config| config.kv_blocks * BLOCK_TOKENS)
}
