//! Collectives only: every group starts its next one when the last has ended.

use meridian_base::{Duration, Time};

use super::setup::{Choose, Way};
use super::wires::Wires;
use crate::queue::EventQueue;
use crate::run::{self, World as _};

struct World<'a> {
    groups: &'a [Vec<Way>],
    bytes: f64,
    choose: &'a mut dyn Choose,
    /// The groups that start.
    queue: EventQueue<usize>,
    wires: Wires<usize>,
    done: Vec<u64>,
}

/// How many collectives of `bytes` each group completes until `until`.
pub fn exchanges(
    ports: &[f64],
    groups: &[Vec<Way>],
    bytes: f64,
    until: Time,
    choose: &mut dyn Choose,
) -> Vec<u64> {
    let mut queue = EventQueue::new(Duration::ZERO);
    (0..groups.len()).for_each(|group| queue.push(Time::ZERO, group));
    let (wires, done) = (Wires::new(ports), vec![0; groups.len()]);
    let mut world = World { groups, bytes, choose, queue, wires, done };
    world.until(until);
    world.done
}

impl run::World for World<'_> {
    type Event = usize;
    type Carrier = Wires<usize>;

    fn ahead(&mut self) -> (&mut EventQueue<usize>, &mut Wires<usize>) {
        (&mut self.queue, &mut self.wires)
    }

    fn transferred(&mut self, now: Time, group: usize) {
        self.done[group] += 1;
        self.queue.push(now, group);
    }

    fn happen(&mut self, now: Time, group: usize) {
        let ways = &self.groups[group];
        let way = self.choose.choose(now, group, self.bytes, 1.0).min(ways.len() - 1);
        self.wires.begin(now, &ways[way], (self.bytes, 1.0), group);
    }
}
