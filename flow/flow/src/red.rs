//! The robust effective deadline of a batch (MFS, section 4.4.2 and appendix B).
//!
//! Ordering batches by their tightest request lets one outlier pull the whole batch to the front
//! (the piggyback effect). RED splits the deadlines at their largest gap and mixes the first of
//! each side by their numbers, so that rare tight requests move it little.

use meridian_base::Time;

/// The result for a batch's deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effective {
    /// Its place in the order.
    pub(crate) red: Time,
    /// First deadline of the loose side, not clipped: feasibility is checked against it.
    pub(crate) loose: Time,
}

/// RED of `sorted` deadlines, at least one; a best-effort request has `Time::MAX`. A loose deadline
/// counts no later than `clip` after the tight one; otherwise a request without an objective would
/// push its batch out of all order.
pub(crate) fn effective(sorted: &[Time], clip: meridian_base::Duration) -> Effective {
    let first = sorted.first().copied().unwrap_or(Time::MAX);
    let mut split = None;
    for at in 1..sorted.len() {
        assert!(sorted[at - 1] <= sorted[at], "deadlines are sorted");
        let gap = sorted[at].since(sorted[at - 1]);
        // Of equal gaps the first counts.
        if split.is_none_or(|(_, widest)| gap > widest) {
            split = Some((at, gap));
        }
    }
    // A batch of one has no gap: its effective deadline is its deadline.
    let Some((at, _)) = split else { return Effective { red: first, loose: first } };
    let loose = sorted[at];
    let clipped = loose.min(first + clip);
    // RED = f D_T + (1 - f) D_Lo, with f = at / n: computed from D_T, so that it stays exact.
    let span = clipped.since(first).as_nanos();
    let share = span * (sorted.len() - at) as u128 / sorted.len() as u128;
    let red = first + meridian_base::Duration::from_nanos(u64::try_from(share).unwrap_or(u64::MAX));
    assert!(first <= red && red <= loose, "the effective deadline is between both sides");
    Effective { red, loose }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use meridian_base::Duration;

    fn red(ms: &[u64], clip: u64) -> u64 {
        let times: Vec<Time> = ms.iter().map(|ms| Time::from_millis(*ms)).collect();
        effective(&times, Duration::from_millis(clip)).red.as_nanos() / 1_000_000
    }

    // Correction 10: one request is its own RED; of equal gaps the first is taken; a loose deadline
    // counts no later than the clip.
    #[test]
    fn correction_10_red_of_one_of_ties_and_clipped() {
        assert_eq!(red(&[70], 1000), 70);
        // Gaps of 100 twice: tight is {100}, so a third of 100 and two thirds of 200.
        assert_eq!(red(&[100, 200, 300], 1000), 166);
        // Half tight, and a loose deadline of 10 s counts as 100 + 300 ms.
        assert_eq!(red(&[100, 10_000], 300), 250);
        let best_effort = [Time::from_millis(100), Time::MAX];
        let found = effective(&best_effort, Duration::from_millis(300));
        assert_eq!(found.red, Time::from_millis(250));
        assert_eq!(found.loose, Time::MAX);
    }

    // The piggyback effect: one request of ten at 100 ms and nine at 1,000 ms is ordered near the
    // nine, behind a batch whose requests are all due at 800 ms.
    #[test]
    fn piggyback_one_tight_request_does_not_carry_its_batch() {
        let mut mixed = [1000; 10];
        mixed[0] = 100;
        assert_eq!(red(&mixed, 5000), 910);
        assert!(red(&mixed, 5000) > red(&[800; 10], 5000));
    }
}
