//! Prefill instances as one queue, and the resulting TTFT.
//!
//! A prompt goes to the instance with the least load relative to its capacity. While some are idle
//! that is the fastest idle one; while none is, each gets its share of the rate. So all of them are
//! equal servers of one queue, with their average speed. Within a pipeline a prompt queues behind
//! others if no instance is empty.
//!
//! Instances are assumed to be idle independently of each other, which is nearly true.

use crate::fleet::Fleet;
use crate::handover::{HandOver, Handing};
use crate::instance::Rated;
use crate::queue::{Queue, largest};
use crate::spread::Waits;
use crate::task::Task;
use crate::traffic::Traffic;

/// Prefill instances of a fleet at a rate.
pub(crate) struct Pool<'a> {
    /// Requests a second.
    rate: f64,
    /// The fastest first.
    instances: Vec<Member<'a>>,
}

/// An instance of a pool.
struct Member<'a> {
    rated: &'a Rated,
    /// The share of the prompts that it gets.
    share: f64,
    /// Seconds from a prompt's turn until its KV is handed over.
    handed: HandOver,
}

/// Prompts that share an instance, and their waits there.
struct Part<'a> {
    /// Of all prompts.
    share: f64,
    handed: &'a HandOver,
    waits: Waits,
    /// Seconds of the current step.
    step: f64,
}

impl Part<'_> {
    fn mean(&self) -> f64 {
        self.step + self.waits.mean() + self.handed.mean()
    }

    /// The share that arrives later than `time`.
    fn later(&self, time: f64) -> f64 {
        self.handed.later(&self.waits, time - self.step)
    }
}

/// Rounds in which shares settle.
const ROUNDS: usize = 30;

impl<'a> Pool<'a> {
    /// The pool of a fleet at `rate` requests a second; `None` if KV has no path.
    pub(crate) fn new(
        task: &Task<'_>,
        fleet: &'a Fleet,
        rate: f64,
        handing: Handing,
    ) -> Option<Pool<'a>> {
        let mut prefill: Vec<&Rated> = fleet.prefill.iter().map(|one| &**one).collect();
        prefill.sort_by(|a, b| b.rate.total_cmp(&a.rate));
        let able: Vec<_> = prefill.iter().map(|one| (one.rate, looks_busy(one))).collect();
        let shares = shares(rate, &able);
        let each: Vec<_> =
            prefill.iter().zip(&shares).map(|(one, share)| (*one, rate * share)).collect();
        let traffic = Traffic::new(task, &each, &fleet.decode)?;
        let pulled = (handing == Handing::Pulled).then(|| first_tokens(task, fleet, rate));
        let handed = traffic.sent.iter().zip(&each).map(|(sent, (rated, own))| {
            HandOver::new(task, rated, sent, (&traffic.loads, *own), pulled.as_deref())
        });
        let members = prefill.into_iter().zip(shares).zip(handed);
        let member = |((rated, share), handed)| Member { rated, share, handed };
        let instances = members.map(member).collect();
        Some(Pool { rate, instances })
    }

    /// TTFT: the mean, and the value below which a share of `quantile` stays.
    pub(crate) fn ttft(&self, quantile: f64) -> (f64, f64) {
        let queue = self.queue();
        let busy: Vec<f64> =
            self.instances.iter().map(|one| one.rated.busy(one.share * self.rate)).collect();
        // A prompt that finds an idle instance meets no step.
        let stepping = busy.iter().product();
        let mut parts: Vec<Part<'_>> = Vec::new();
        for (nth, Member { rated, share, handed }) in self.instances.iter().enumerate() {
            let others = busy.iter().enumerate().filter(|(at, _)| *at != nth);
            let met = others.map(|(_, busy)| busy).product();
            let waits = rated.waits(&queue, self.rate, (share * self.rate, met));
            for (chance, step) in rated.under_way(stepping) {
                parts.push(Part { share: share * chance, handed, waits, step });
            }
        }
        let later =
            |time: f64| -> f64 { parts.iter().map(|part| part.share * part.later(time)).sum() };
        let longest = parts.iter().map(|part| part.step + part.handed.within(quantile));
        let slowest = parts.iter().map(|part| part.waits.mean()).fold(0.0, f64::max);
        let most = 2.0 * longest.fold(0.0, f64::max) + 20.0 * slowest / (1.0 - quantile);
        let mean = parts.iter().map(|part| part.share * part.mean()).sum();
        (mean, largest(most, |time| later(time) > 1.0 - quantile))
    }

    /// The queue of all, each with its share of the prompts.
    fn queue(&self) -> Queue {
        let speed: f64 = self.instances.iter().map(|one| 1.0 / one.rated.queue.interval).sum();
        let cv2 = self.instances.iter().map(|one| one.share * one.rated.queue.cv2).sum();
        let servers = self.instances.len() as u32;
        Queue { servers, interval: f64::from(servers) / speed, cv2 }
    }
}

/// Seconds at each decode instance until the first token, without the transfer: a request waits for the
/// next step before it fetches its KV and again afterwards, half a step each if there is one, and then
/// takes one with a prompt in it. In a pipeline a step begins whenever the first stage is free.
fn first_tokens(task: &Task<'_>, fleet: &Fleet, rate: f64) -> Vec<f64> {
    let total: f64 = fleet.decode.iter().map(|one| one.rate).sum();
    let seconds = |one: &Rated| {
        let own = rate * one.rate / total;
        let step = one.tpot(task, own);
        let busy = 1.0 - libm::exp(-own * task.output.mean * step);
        one.first_step(task, own) + step * busy / f64::from(one.instance.parallel.pp)
    };
    fleet.decode.iter().map(|one| seconds(one)).collect()
}

/// The share of the time that an instance looks busy to an arriving prompt, at its own rate. A
/// pipeline looks busy until its last stage is done. Prompts come to it when other instances are
/// busy, not while it has prompts already, so it is assumed to have one at a time.
fn looks_busy(one: &Rated) -> impl Fn(f64) -> f64 {
    let stages = f64::from(one.instance.parallel.pp);
    let whole = stages * one.queue.interval;
    move |rate| if stages > 1.0 { (rate * whole).min(1.0) } else { one.busy(rate) }
}

/// The share of a rate that each gets, the fastest first: while one looks idle the first of those,
/// otherwise in proportion to capacity.
fn shares(rate: f64, each: &[(f64, impl Fn(f64) -> f64)]) -> Vec<f64> {
    let total: f64 = each.iter().map(|(able, _)| able).sum();
    let mut shares: Vec<f64> = each.iter().map(|(able, _)| able / total).collect();
    for _ in 0..ROUNDS {
        let busy: Vec<f64> =
            each.iter().zip(&shares).map(|((_, busy), share)| busy(share * rate)).collect();
        let all: f64 = busy.iter().product();
        let mut before = 1.0;
        for (nth, share) in shares.iter_mut().enumerate() {
            let next = before * (1.0 - busy[nth]) + all * each[nth].0 / total;
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
        let server = |gpu| format!("  - {{gpu: {gpu}, gpus: 1, cards: 1, card_rate: 100Gb/s}}\n");
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

    // A KV transfer that is shorter than the next prompt does not delay that one's: an instance
    // that is alone on its links hands over as fast with many prompts a second as with few.
    #[test]
    fn no_instance_delays_its_own_transfers() {
        let (topology, subject) = (topology(), Subject::named("llama-3.1-8b").unwrap());
        let task = task(&topology, &subject);
        let fleet = fleet(&task, &[0]);
        let rate = 0.9 * fleet.judged(&task).unwrap().goodput;
        let alone = Pool::new(&task, &fleet, 1e-6 * rate, Handing::Layers).unwrap();
        let pool = Pool::new(&task, &fleet, rate, Handing::Layers).unwrap();
        let mean = |pool: &Pool<'_>| pool.instances[0].handed.mean();
        let (handed, alone) = (mean(&pool), mean(&alone));
        assert!(alone > 0.0 && (handed / alone - 1.0).abs() < 1e-6, "{handed} {alone}");
    }

    // The order of the instances does not affect the times.
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
        let busy = |seconds: f64| move |rate: f64| (rate * seconds).min(1.0);
        let each = [(2.0 / 3.0, busy(0.5)), (1.0 / 3.0, busy(1.0))];
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
