//! Prefill instances as one queue, and what TTFT comes of it.
//!
//! A prompt goes to the instance that has least to do for what it can serve. While one is idle that is
//! the one that serves most of those; while none is, each gets its share of the rate. So all of them are
//! servers of one queue, with the speed that they have on average.
//!
//! Who is idle is taken to be independent of who else is, which it nearly is.

use crate::fleet::{Fleet, Times};
use crate::handover::HandOver;
use crate::instance::Rated;
use crate::loads::Loads;
use crate::queue::{Queue, largest};
use crate::spread::Waits;
use crate::task::Task;

/// Prefill instances of a fleet.
pub(crate) struct Pool<'a> {
    /// Those that serve most first, with the seconds from a prompt's turn until its KV is handed over;
    /// none where there is no way.
    instances: Vec<(&'a Rated, Option<HandOver>)>,
}

/// Prompts that have an instance in common, and what they wait for there.
struct Part<'a> {
    /// Of all prompts.
    share: f64,
    handed: &'a HandOver,
    waits: Waits,
    /// Seconds of a step under way.
    step: f64,
}

impl Part<'_> {
    fn mean(&self) -> f64 {
        self.step + self.waits.mean() + self.handed.mean()
    }

    /// The share that is there later than `time`.
    fn later(&self, time: f64) -> f64 {
        self.handed.later(&self.waits, time - self.step)
    }
}

/// Rounds in which shares settle.
const ROUNDS: usize = 30;

impl<'a> Pool<'a> {
    /// The pool of a fleet, whose requests put `loads` on links each.
    pub(crate) fn new(task: &Task<'_>, fleet: &'a Fleet, loads: &Loads, rate: f64) -> Pool<'a> {
        let handed = |from| HandOver::new(task, fleet, from, (loads, rate));
        let mut instances: Vec<(&Rated, Option<HandOver>)> =
            fleet.prefill.iter().map(|one| (&**one, handed(one))).collect();
        instances.sort_by(|a, b| b.0.rate.total_cmp(&a.0.rate));
        Pool { instances }
    }

    /// TTFT at a rate.
    pub(crate) fn times(&self, rate: f64, quantile: f64) -> Times {
        let shares = self.shares(rate);
        let queue = self.queue(&shares);
        let base = queue.wait(rate);
        let load = rate * queue.interval / f64::from(queue.servers);
        let each = || self.instances.iter().zip(&shares);
        // Whoever finds an idle instance meets no step.
        let stepping = each().map(|((one, _), share)| one.stepping(share * rate)).product();
        let mut parts: Vec<Part<'_>> = Vec::new();
        for ((one, handed), share) in each() {
            let Some(handed) = handed else { return Times::NEVER };
            let waits = one.waits(&base, load);
            for (chance, step) in one.under_way(stepping) {
                parts.push(Part { share: share * chance, handed, waits, step });
            }
        }
        let later =
            |time: f64| -> f64 { parts.iter().map(|part| part.share * part.later(time)).sum() };
        let longest = parts.iter().map(|part| part.step + part.handed.within(quantile));
        let slowest = parts.iter().map(|part| part.waits.mean()).fold(0.0, f64::max);
        let most = 2.0 * longest.fold(0.0, f64::max) + 20.0 * slowest / (1.0 - quantile);
        Times {
            ttft: parts.iter().map(|part| part.share * part.mean()).sum(),
            ttft_within: largest(most, |time| later(time) > 1.0 - quantile),
            tpot: 0.0,
        }
    }

    /// The queue of all, each with its share of the prompts.
    fn queue(&self, shares: &[f64]) -> Queue {
        let all = || self.instances.iter().zip(shares);
        let speed: f64 = self.instances.iter().map(|(one, _)| 1.0 / one.queue.interval).sum();
        let cv2 = all().map(|((one, _), share)| share * one.queue.cv2).sum();
        let servers = self.instances.len() as u32;
        Queue { servers, interval: f64::from(servers) / speed, cv2 }
    }

    /// The share of the prompts that each gets.
    fn shares(&self, rate: f64) -> Vec<f64> {
        let total: f64 = self.instances.iter().map(|(one, _)| one.rate).sum();
        // A pipeline looks busy until its last stage is through.
        let busy = |one: &Rated| one.queue.interval * f64::from(one.instance.parallel.pp);
        let fair = |(one, _): &(&Rated, _)| (one.rate / total, busy(one));
        shares(rate, &self.instances.iter().map(fair).collect::<Vec<_>>())
    }
}

/// The share that each gets of a rate, the most able first, by its share of what all can serve and how
/// long a prompt keeps it busy: while one is idle the first of those, otherwise each its own share.
fn shares(rate: f64, each: &[(f64, f64)]) -> Vec<f64> {
    let mut shares: Vec<f64> = each.iter().map(|(fair, _)| *fair).collect();
    for _ in 0..ROUNDS {
        let busy: Vec<f64> = each
            .iter()
            .zip(&shares)
            .map(|((_, busy), share)| (share * rate * busy).min(1.0))
            .collect();
        let all: f64 = busy.iter().product();
        let mut before = 1.0;
        for (nth, share) in shares.iter_mut().enumerate() {
            let next = before * (1.0 - busy[nth]) + all * each[nth].0;
            before *= busy[nth];
            *share = 0.5 * (*share + next);
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::import::TopologySpec;
    use crate::instance::{Instance, Parallel, Phase};
    use crate::model::Subject;
    use crate::task::{Lengths, Slo};
    use crate::topology::{GpuId, Topology};

    /// Three servers of one GPU each.
    fn topology() -> Topology {
        let server = |gpu| format!("  - {{gpu: {gpu}, gpus: 1, cards: 1, card_rate: 10Gb/s}}\n");
        let servers = [server("a100"), server("l4"), server("h100")].concat();
        let yaml = format!("version: 1\nunits:\n- servers:\n{servers}");
        TopologySpec::read(&yaml).unwrap().build().unwrap()
    }

    /// Prefill on each of these GPUs, and replies on the last one.
    fn fleet(task: &Task<'_>, prefill: &[u32]) -> Fleet {
        let on = |phase, gpu: u32| {
            let parallel = Parallel { tp: 1, pp: 1, ep: false };
            let instance = Instance { phase, parallel, stages: vec![vec![GpuId(gpu)]] };
            Rc::new(Rated::new(task, instance).unwrap())
        };
        Fleet {
            prefill: prefill.iter().map(|gpu| on(Phase::Prefill, *gpu)).collect(),
            decode: vec![on(Phase::Decode, 2)],
        }
    }

    fn task<'a>(topology: &'a Topology, subject: &'a Subject) -> Task<'a> {
        let lengths = Lengths { mean: 800.0, cv: 0.8 };
        let slo = Slo { ttft: 5.0, tpot: 0.1, attainment: 0.9 };
        Task::new(topology, subject, (lengths, lengths), slo)
    }

    // One prompt's KV does not wait for the next one's: an instance that is alone on its links hands
    // over as fast as if there were no others, however many there are a second.
    #[test]
    fn nobody_is_in_its_own_way() {
        let (topology, subject) = (topology(), Subject::named("llama-3.1-8b").unwrap());
        let task = task(&topology, &subject);
        let fleet = fleet(&task, &[0]);
        let verdict = fleet.judged(&task).unwrap();
        let mut nobody = verdict.loads.clone();
        nobody.merge(&verdict.loads, -1.0);
        let alone = Pool::new(&task, &fleet, &nobody, 0.9 * verdict.goodput);
        let pool = Pool::new(&task, &fleet, &verdict.loads, 0.9 * verdict.goodput);
        let mean = |pool: &Pool<'_>| pool.instances[0].1.as_ref().unwrap().mean();
        let (handed, alone) = (mean(&pool), mean(&alone));
        assert!(alone > 0.0 && (handed / alone - 1.0).abs() < 1e-6, "{handed} {alone}");
    }

    // Whoever lists the slower instance first gets the same times.
    #[test]
    fn the_order_of_instances_does_not_matter() {
        let (topology, subject) = (topology(), Subject::named("llama-3.1-8b").unwrap());
        let task = task(&topology, &subject);
        let times = |prefill: &[u32]| {
            let fleet = fleet(&task, prefill);
            let verdict = fleet.judged(&task).unwrap();
            fleet.times(&task, &verdict, 0.5 * verdict.goodput)
        };
        let (one, other) = (times(&[0, 1]), times(&[1, 0]));
        assert!((one.ttft / other.ttft - 1.0).abs() < 1e-9, "{one:?} {other:?}");
        assert!((one.ttft_within / other.ttft_within - 1.0).abs() < 1e-6, "{one:?} {other:?}");
    }

    // Two instances, one twice as able. Next to idle, the abler one takes nearly all; at the most that
    // both can serve each takes its part. At a quarter of that its share s keeps it busy for 3 s / 8 of
    // the time and the other one for 3 (1 - s) / 4, and s = 1 - 3/8 s + 3/16 s (1 - s) is 0.7527.
    #[test]
    fn the_abler_is_asked_first() {
        let each = [(2.0 / 3.0, 0.5), (1.0 / 3.0, 1.0)];
        let at = |rate: f64| {
            let found = shares(rate, &each);
            assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-6);
            found[0]
        };
        assert!(at(0.001) > 0.999);
        assert!((at(3.0) - 2.0 / 3.0).abs() < 1e-6);
        assert!((at(0.75) - 0.752_66).abs() < 1e-5, "{}", at(0.75));
    }
}
