//! The event queue, ordered by (time, sequence).
//!
//! The sequence number is assigned on entry, so events of one instant happen in the order in which
//! they were caused, on every machine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use meridian_base::{Duration, Time};

use crate::rows::Rows;

/// Events of type `E` in order of time.
#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    /// Time, sequence, and the event's row: small, so that sorting moves little.
    heap: BinaryHeap<Reverse<(Time, u64, u32)>>,
    events: Rows<E>,
    sequence: u64,
    /// When the newest event happened that was taken out.
    last: Time,
    /// Times are rounded up to whole ticks of this many ns; 1 leaves them unchanged.
    tick: u64,
}

impl<E> EventQueue<E> {
    /// A queue whose events happen on whole ticks; a tick of zero leaves times unchanged.
    pub(crate) fn new(tick: Duration) -> EventQueue<E> {
        let tick = (tick.as_nanos() as u64).max(1);
        let (heap, events) = (BinaryHeap::new(), Rows::default());
        EventQueue { heap, events, sequence: 0, last: Time::ZERO, tick }
    }

    /// The first tick that is not before `at`.
    pub(crate) fn rounded(&self, at: Time) -> Time {
        match self.tick {
            1 => at,
            tick => Time::from_nanos(at.as_nanos().div_ceil(tick) * tick),
        }
    }

    /// Enters `event` to happen at `at`.
    pub(crate) fn push(&mut self, at: Time, event: E) {
        self.sequence += 1;
        let at = self.rounded(at);
        assert!(at >= self.last, "an event at {at:?} is entered after {:?}", self.last);
        self.heap.push(Reverse((at, self.sequence, self.events.enter(event))));
    }

    /// When the next event happens.
    pub(crate) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// The next event, if it happens by `now`.
    pub(crate) fn pop_by(&mut self, now: Time) -> Option<E> {
        let next = self.heap.peek_mut().filter(|next| next.0.0 <= now)?;
        let Reverse((at, _, row)) = PeekMut::pop(next);
        self.last = at;
        self.events.take(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Earlier first; of one instant, first come first served.
    #[test]
    fn order_is_time_then_sequence() {
        let mut queue = EventQueue::new(Duration::ZERO);
        for (at, name) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd'), (4, 'e')] {
            queue.push(Time::from_millis(at), name);
        }
        let order: String = std::iter::from_fn(|| queue.pop_by(Time::from_millis(4))).collect();
        assert_eq!(order, "bde");
        assert_eq!(queue.next(), Some(Time::from_millis(5)));
        let order: String = std::iter::from_fn(|| queue.pop_by(Time::MAX)).collect();
        assert_eq!(order, "ac");
    }

    // No event is entered before one that has happened.
    #[test]
    #[should_panic(expected = "is entered after")]
    fn time_does_not_run_backwards() {
        let mut queue = EventQueue::new(Duration::ZERO);
        queue.push(Time::from_millis(5), 'a');
        queue.pop_by(Time::MAX);
        queue.push(Time::from_millis(4), 'b');
    }

    // With a tick, an event between two ticks happens at the later one.
    #[test]
    fn ticks() {
        let mut queue = EventQueue::new(Duration::from_millis(1));
        for (at, name) in [(1_000_001, 'a'), (1_000_000, 'b'), (1_999_999, 'c'), (0, 'd')] {
            queue.push(Time::from_nanos(at), name);
        }
        let names = [0, 1, 2].map(|ms| {
            let at = Time::from_millis(ms);
            assert_eq!(queue.next(), Some(at));
            std::iter::from_fn(|| queue.pop_by(at)).collect::<String>()
        });
        assert_eq!(names, ["d", "b", "ac"]);
    }
}
