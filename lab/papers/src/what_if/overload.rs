//! Detects fleets that get more than they can answer: requests are refused, or the queue grows to the
//! end of the trace. Their times grow with the length of the run.
//!
//! The queue is every request without a first token, in gateways and engines: policies that push
//! queue in the engines. A rate that rises within the trace makes it longer too, so a queue counts as
//! growing only if each request also waits longer.

use std::time::Duration;

use meridian_base::Time;
use meridian_sim::{Fate, Record};

/// Fewer requests than this are not a queue.
const LEAST: f64 = 10.0;
/// A queue grows if the last quarter of the window has this many times the queue and the wait of the
/// second. One that grows from the start of the window at a constant rate has 2.33 times as much.
const GROWTH: f64 = 1.5;
/// A fleet that refuses more than this share of the requests is overloaded, as in experiments.
const REFUSED: f64 = 0.005;

/// The queue over the quarters of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Waiting {
    /// Mean requests without a first token.
    pub(super) queue: [f64; 4],
    /// Mean seconds to the first token, or to the refusal, by the quarter in which a request was
    /// sent.
    pub(super) seconds: [f64; 4],
}

impl Waiting {
    /// The queue of these requests in a window that starts at `start`.
    pub(super) fn of(requests: &[Record], start: Time, window: Duration) -> Waiting {
        let quarter = window.as_secs_f64() / 4.0;
        let (mut queue, mut sums, mut counts) = ([0.0; 4], [0.0; 4], [0.0; 4]);
        for request in requests {
            let waits = match request.fate {
                Fate::Done => request.ttft,
                _ => request.e2e,
            };
            let from = request.sent.since(start).as_secs_f64();
            let to = from + waits.as_secs_f64();
            for (at, queue) in queue.iter_mut().enumerate() {
                let (low, high) = (at as f64 * quarter, (at + 1) as f64 * quarter);
                *queue += (to.min(high) - from.max(low)).max(0.0) / quarter;
            }
            let at = ((from / quarter) as usize).min(3);
            sums[at] += to - from;
            counts[at] += 1.0;
        }
        Waiting { queue, seconds: std::array::from_fn(|at| sums[at] / f64::max(counts[at], 1.0)) }
    }

    /// The mean of several seeds'.
    pub(super) fn mean(all: &[Waiting]) -> Waiting {
        let mean = |of: fn(&Waiting) -> [f64; 4]| {
            std::array::from_fn(|at| all.iter().map(|w| of(w)[at]).sum::<f64>() / all.len() as f64)
        };
        Waiting { queue: mean(|w| w.queue), seconds: mean(|w| w.seconds) }
    }

    /// Whether the queue grows to the end.
    fn grows(&self) -> bool {
        let [_, second, third, last] = self.queue;
        let rises = |of: &[f64; 4]| of[3] > GROWTH * of[1];
        last > LEAST && last > third && third > second && rises(&self.queue) && rises(&self.seconds)
    }
}

/// Why a fleet is overloaded, in words; `None` if it keeps up.
pub(super) fn words(waiting: &Waiting, refused: f64) -> Option<String> {
    let mut says = Vec::new();
    if waiting.grows() {
        let [_, second, _, last] = waiting.queue;
        says.push(format!(
            "the queue grows to the end of the trace, from {second:.0} requests without a first \
             token in the second quarter to {last:.0} in the last"
        ));
    }
    if refused > REFUSED {
        says.push(format!("{:.1} % of the requests are refused", refused * 100.0));
    }
    (!says.is_empty()).then(|| says.join("; "))
}

/// The same about requests that were never sent, as earlier answers of their sessions took too long.
pub(super) fn waited(unsent: f64) -> Option<String> {
    (unsent > 0.0).then(|| {
        format!(
            "{unsent:.0} requests still waited for earlier answers ten minutes after the last recorded \
             one, and are not counted"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(sent_s: u64, waits_s: u64, fate: Fate) -> Record {
        Record {
            sent: Time::from_millis(sent_s * 1000),
            region: 0,
            served: 0,
            replica: 0,
            load: 0,
            fate,
            forwarded: false,
            attempts: 1,
            ttft: Duration::from_secs(waits_s),
            e2e: Duration::from_secs(waits_s),
            held: Duration::ZERO,
            held_away: Duration::ZERO,
            sent_back: 0,
            crossing: None,
            prompt_tokens: 1,
            cached_tokens: 0,
            matched_tokens: 0,
            reply_tokens: 1,
            slo: None,
            session: 0,
        }
    }

    /// The queue of one request a second for 400 s after a warm-up of 100 s.
    fn waiting(waits_s: impl Fn(u64) -> u64) -> Waiting {
        let all: Vec<Record> =
            (0..400).map(|at| record(100 + at, waits_s(at), Fate::Done)).collect();
        Waiting::of(&all, Time::from_millis(100_000), Duration::from_secs(400))
    }

    // A steady queue does not grow, however long it is; one whose requests wait longer and longer
    // does, unless it is short.
    #[test]
    fn a_growing_queue_is_seen() {
        assert_eq!(words(&waiting(|_| 30), 0.0), None);
        let says = words(&waiting(|at| at / 4), 0.0).expect("it grows");
        assert!(says.contains("grows to the end"), "{says}");
        // The queue was long at the start of the window.
        assert!(words(&waiting(|at| 20 + at / 4), 0.0).is_some());
        assert_eq!(words(&waiting(|at| at / 100), 0.0), None);
        // A burst that is over by the end.
        assert_eq!(words(&waiting(|at| if at < 200 { at / 2 } else { 1 }), 0.0), None);
    }

    // Little's law: one request a second that waits 30 s is a queue of 30.
    #[test]
    fn the_queue_is_counted() {
        let steady = waiting(|_| 30);
        assert!((steady.queue[1] - 30.0).abs() < 1e-9 && (steady.seconds[3] - 30.0).abs() < 1e-9);
    }

    // Refusals are an overload of their own, above half a percent.
    #[test]
    fn refusals_are_seen() {
        assert_eq!(words(&Waiting::default(), 0.004), None);
        assert_eq!(words(&Waiting::default(), 0.02).unwrap(), "2.0 % of the requests are refused");
    }
}
