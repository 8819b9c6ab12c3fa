//! The KV handover of a prompt: its time beyond the prompt's computation, under contention.
//!
//! Concurrent transfers share a link, so a transfer that meets n others takes 1 + n times as long.
//! The number it meets is geometric, as in a processor-sharing queue. Layers are sent as they are
//! computed, so only a transfer that outlasts the prompt adds delay; therefore the distribution
//! matters and not only the mean.
//!
//! On the sender's links it competes with the sender's neighbours, on the receiver's with other
//! senders. The two are independent, and the transfer ends when both directions are done. If KV is
//! pulled after the prompt, all of the transfer adds delay.

use crate::instance::Rated;
use crate::loads::Loads;
use crate::spread::{Spread, Waits};
use crate::task::Task;
use crate::topology::{Direction, Topology};
use crate::transfer::{Transfer, exposed, parts};

/// How KV is handed over, and where the TTFT ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handing {
    /// Layer by layer while the prompt is computed. The TTFT ends when all of it has arrived.
    Layers,
    /// As a whole, when the prompt is complete (vLLM's NixlConnector). The decode instance takes note of
    /// the request between two steps, fetches, and computes the first token in its next step.
    Pulled,
}

/// A transfer is assumed to meet at most this many others on average.
const MOST_OTHERS: f64 = 20.0;
/// This many others are computed one by one; further ones are combined, at their mean.
const OTHERS: i32 = 7;
/// Rounds in which their number settles.
const ROUNDS: usize = 40;

/// Seconds from the start of a prompt until its KV has arrived, over the lengths: one distribution
/// for each decode instance and number of concurrent senders, with its probability.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HandOver(Vec<(f64, Spread)>);

impl HandOver {
    /// For prompts of `from`, which sends `sent` with these probabilities; all instances put
    /// `loads` bytes a second on links, and `own` prompts a second belong to it. With `pulled` all KV is
    /// sent after the prompt, and each decode instance needs this long for the first token.
    pub(crate) fn new(
        task: &Task<'_>,
        from: &Rated,
        sent: &[(f64, Transfer)],
        (loads, own): (&Loads, f64),
        pulled: Option<&[f64]>,
    ) -> HandOver {
        let crowd = Crowd::new(from, sent, (loads, own));
        let lengths = lengths(task);
        let layers = parts(task);
        let mut all = Vec::new();
        for (nth, (share, kv)) in sent.iter().enumerate() {
            let first = pulled.and_then(|seconds| seconds.get(nth));
            let [out, into] = [Direction::Out, Direction::In].map(|way| {
                let (seconds, others) = crowd.met(task.topology, kv, way);
                let lasts = |slower: f64| kv.seconds.max(seconds * slower);
                meetings(others).map(|(chance, slower)| (chance, lasts(slower))).collect::<Vec<_>>()
            });
            for (chance, seconds) in later_of(&out, &into) {
                let whole = seconds / task.prompt.mean;
                let until = |own: f64, tokens: f64| match first {
                    Some(first) => own + whole * tokens + first,
                    None => own + exposed(whole * tokens, layers, own),
                };
                all.push((share * chance, from.times.with(&lengths, until)));
            }
        }
        HandOver(all)
    }

    /// The share that arrives later than `time`, if each length has waited before.
    pub(crate) fn later(&self, waits: &Waits, time: f64) -> f64 {
        self.0.iter().map(|(chance, one)| chance * one.later(waits, time)).sum()
    }

    /// The mean.
    pub(crate) fn mean(&self) -> f64 {
        self.0.iter().map(|(chance, one)| chance * one.mean()).sum()
    }

    /// The time below which a share of `quantile` stays.
    pub(crate) fn within(&self, quantile: f64) -> f64 {
        self.0.iter().map(|(_, one)| one.within(quantile)).fold(0.0, f64::max)
    }
}

/// The prompts' lengths.
fn lengths(task: &Task<'_>) -> Spread {
    let longest = f64::from(task.subject.shape.context) - task.output.mean;
    Spread::new(task.prompt, longest, |tokens| tokens)
}

/// The traffic on links while a prompt of an instance is handed over.
struct Crowd {
    /// Bytes a second on each, of the instance's own KV and of all others.
    own: Loads,
    others: Loads,
    /// Seconds between two of its prompts, at least.
    interval: f64,
}

impl Crowd {
    /// The traffic around `from`, where all instances put `loads` bytes a second on links, and
    /// `own` prompts belong to it.
    fn new(from: &Rated, sent: &[(f64, Transfer)], (loads, own): (&Loads, f64)) -> Crowd {
        let mut kv = Loads::default();
        sent.iter().for_each(|(share, one)| kv.merge(&one.loads, own * share));
        let mut others = loads.clone();
        others.merge(&from.loads, -own);
        others.merge(&kv, -1.0);
        Crowd { own: kv, others, interval: from.queue.interval }
    }

    /// The link of one direction that limits a transfer: the seconds without contention, and how
    /// many others it meets on average.
    fn met(&self, topology: &Topology, kv: &Transfer, way: Direction) -> (f64, f64) {
        let on = |(link, bytes): (_, f64)| {
            let rate = topology.usable(link);
            let (seconds, own, others) =
                (bytes / rate, self.own.on(link) / rate, self.others.on(link) / rate);
            (seconds, on_link(seconds, (own.max(0.0), self.interval), others.max(0.0)))
        };
        let lasts = |(seconds, others): &(f64, f64)| seconds * (1.0 + others);
        let all = kv.loads.iter().filter(|(link, _)| topology.link(*link).way() == way).map(on);
        all.max_by(|a, b| lasts(a).total_cmp(&lasts(b))).unwrap_or((0.0, 0.0))
    }
}

/// The later of two independent times, each given as seconds with their probabilities.
fn later_of(a: &[(f64, f64)], b: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut times: Vec<f64> = a.iter().chain(b).map(|(_, time)| *time).collect();
    times.sort_by(f64::total_cmp);
    times.dedup();
    let until = |of: &[(f64, f64)], time: f64| -> f64 {
        of.iter().filter(|(_, one)| *one <= time).map(|(chance, _)| chance).sum()
    };
    let mut before = 0.0;
    let chances = times.into_iter().map(|time| {
        let now = until(a, time) * until(b, time);
        (now - core::mem::replace(&mut before, now), time)
    });
    chances.filter(|(chance, _)| *chance > 0.0).collect()
}

/// How many others a transfer of `seconds` meets on a link that is busy for these shares of the
/// time; its instance's own transfers are at least `apart` seconds apart.
///
/// Each transfer takes longer by the number of others. An instance computes one prompt after the
/// other, so its own transfers overlap only by the time they last beyond that.
fn on_link(seconds: f64, (own, apart): (f64, f64), others: f64) -> f64 {
    (0..ROUNDS).fold(0.0, |met: f64, _| {
        let beyond = (1.0 - apart / (seconds * (1.0 + met))).max(0.0);
        ((own * beyond + others) * (1.0 + met)).min(MOST_OTHERS)
    })
}

/// The factors on a transfer's time if it meets this many others on average, each with its
/// probability.
fn meetings(others: f64) -> impl Iterator<Item = (f64, f64)> {
    let full = others / (1.0 + others);
    let of = move |n: i32| libm::pow(full, f64::from(n));
    let one_by_one = (0..OTHERS).map(move |n| ((1.0 - full) * of(n), 1.0 + f64::from(n)));
    let further = (of(OTHERS), f64::from(OTHERS) + 1.0 + others);
    one_by_one.chain([further]).filter(|(chance, _)| *chance > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Probabilities sum to 1, and the mean is the transfer's own time plus that of the others it
    // meets.
    #[test]
    fn meetings_keep_their_mean() {
        for others in [0.0, 0.3, 2.0, 20.0] {
            let chances: f64 = meetings(others).map(|(chance, _)| chance).sum();
            let mean: f64 = meetings(others).map(|(chance, slower)| chance * slower).sum();
            assert!((chances - 1.0).abs() < 1e-12, "{others}: {chances}");
            assert!((mean - 1.0 - others).abs() < 1e-9, "{others}: {mean}");
        }
        assert_eq!(meetings(0.0).collect::<Vec<_>>(), [(1.0, 1.0)]);
    }

    // The later of two is late if either is; if one is always first it is the other.
    #[test]
    fn the_later_of_two_counts() {
        let (even, sure) = ([(0.5, 1.0), (0.5, 2.0)], [(1.0, 1.5)]);
        assert_eq!(later_of(&even, &even), [(0.25, 1.0), (0.75, 2.0)]);
        assert_eq!(later_of(&even, &sure), [(0.5, 1.5), (0.5, 2.0)]);
        assert_eq!(later_of(&sure, &[(1.0, 0.0)]), sure);
    }

    // On a link that others fill for a share r of the time a transfer meets r / (1 - r) others. Its
    // instance's own transfers count only if they outlast the next prompt. Beyond the link's rate
    // the number is capped.
    #[test]
    fn transfers_meet_who_is_there() {
        let met = on_link(0.1, (0.0, 1.0), 0.5);
        assert!((met - 1.0).abs() < 1e-6, "{met}");
        assert_eq!(on_link(0.1, (0.4, 0.2), 0.0), 0.0);
        // 0.4 (1 + n) - 0.2 others, where each lasts 1 + n times 0.1 s and the next one is 0.05 s away.
        let met = on_link(0.1, (0.4, 0.05), 0.0);
        assert!((met - 0.2 / 0.6).abs() < 1e-6, "{met}");
        assert_eq!(on_link(0.1, (0.4, 0.05), 0.7), MOST_OTHERS);
    }
}
