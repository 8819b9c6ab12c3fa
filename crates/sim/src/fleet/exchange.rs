//! Collectives only: every group starts its next one when the last has ended.

use meridian_base::{Duration, Time};

use super::setup::{Choose, Way};
use super::wires::Wires;
use crate::queue::EventQueue;

/// How many collectives of `bytes` each group completes until `until`.
pub fn exchanges(
    ports: &[f64],
    groups: &[Vec<Way>],
    bytes: f64,
    until: Time,
    choose: &mut dyn Choose,
) -> Vec<u64> {
    let mut wires: Wires<usize> = Wires::new(ports);
    let mut timers = EventQueue::new(Duration::ZERO);
    let mut done = vec![0; groups.len()];
    let mut ready: Vec<usize> = (0..groups.len()).collect();
    let mut now = Time::ZERO;
    loop {
        for group in ready.drain(..) {
            let ways = &groups[group];
            let way = choose.choose(now, group, bytes, 1.0).min(ways.len() - 1);
            let (id, timer) = wires.begin(now, &ways[way], (bytes, 1.0), group);
            timers.push(timer, id);
        }
        wires.settle(now);
        now = match (timers.next(), wires.next()) {
            (Some(a), Some(b)) => a.min(b),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => return done,
        };
        if now > until {
            return done;
        }
        while let Some(group) = wires.ended(now) {
            ready.push(group);
        }
        while timers.next() == Some(now) {
            let Some((_, id)) = timers.pop() else { break };
            ready.extend(wires.timer(id));
        }
        for group in &ready {
            done[*group] += 1;
        }
    }
}
