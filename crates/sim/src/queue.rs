//! The event queue, ordered by (time, sequence).
//!
//! The sequence number is assigned on entry, so events of one instant happen in the order in which
//! they were caused, on every machine.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use meridian_base::{Duration, Time};

/// Events of type `E` in order of time.
#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    /// Time, sequence, and the event's index: small, so that sorting moves little.
    heap: BinaryHeap<Reverse<(Time, u64, u32)>>,
    events: Vec<Option<E>>,
    free: Vec<u32>,
    sequence: u64,
    /// Times are rounded up to whole ticks of this many ns; 1 leaves them unchanged.
    tick: u64,
}

impl<E> EventQueue<E> {
    /// A queue whose events happen on whole ticks; a tick of zero leaves times unchanged.
    pub(crate) fn new(tick: Duration) -> EventQueue<E> {
        let tick = (tick.as_nanos() as u64).max(1);
        let (heap, events, free) = (BinaryHeap::new(), Vec::new(), Vec::new());
        EventQueue { heap, events, free, sequence: 0, tick }
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
        let place = self.free.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() as u32 - 1
        });
        self.events[place as usize] = Some(event);
        self.heap.push(Reverse((at, self.sequence, place)));
    }

    /// When the next event happens.
    pub(crate) fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// The next event and its time.
    pub(crate) fn pop(&mut self) -> Option<(Time, E)> {
        let Reverse((at, _, place)) = self.heap.pop()?;
        self.free.push(place);
        self.events[place as usize].take().map(|event| (at, event))
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
        let order: String = std::iter::from_fn(|| queue.pop()).map(|(_, name)| name).collect();
        assert_eq!(order, "bdeac");
    }

    // With a tick, an event between two ticks happens at the later one.
    #[test]
    fn ticks() {
        let mut queue = EventQueue::new(Duration::from_millis(1));
        for (at, name) in [(1_000_001, 'a'), (1_000_000, 'b'), (1_999_999, 'c'), (0, 'd')] {
            queue.push(Time::from_nanos(at), name);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        let ms = Time::from_millis;
        assert_eq!(order, [(ms(0), 'd'), (ms(1), 'b'), (ms(2), 'a'), (ms(2), 'c')]);
    }
}
