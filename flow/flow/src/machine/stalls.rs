//! Permits that are never used must not hold up a port: a client may have died or been stopped with
//! permitted bytes, or its receiver may have.
//!
//! A port with waiting flows has stalled once no chunk was permitted and no byte completed there for
//! [`Config::max_hold`](crate::Config::max_hold), or for the time of [`WINDOWS`] windows at the port's rate if that is longer: a
//! slow port needs longer for a chunk, and other senders may leave this one only a part of a receiver.
//! A stalled port's permits expire. Its window is free again and the gate has failed open, so a client
//! that is stopped costs the others one hold.

use alloc::collections::BinaryHeap;
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use meridian_base::{Duration, PortId, Time};

use super::Flows;
use crate::why::PermitWhy;

/// Windows whose time passes before a port counts as stalled.
const WINDOWS: f64 = 4.0;

/// The ports with waiting flows, by the time at which they stall.
#[derive(Debug)]
pub(super) struct Stalls {
    /// By port: when it last permitted a chunk or completed bytes, and whether it is in `due`.
    active: Vec<(Time, bool)>,
    due: BinaryHeap<Reverse<(Time, u32)>>,
}

impl Stalls {
    pub(super) fn new(ports: u32) -> Stalls {
        let active = vec![(Time::ZERO, false); ports as usize];
        Stalls { active, due: BinaryHeap::with_capacity(ports as usize) }
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.due.peek().map(|due| due.0.0)
    }

    /// A chunk was permitted at the port, or bytes of one completed.
    pub(super) fn active(&mut self, now: Time, port: PortId) {
        let active = &mut self.active[port.index()].0;
        assert!(*active <= now, "a port's last permit or completion is in the past");
        *active = now;
    }

    fn watch(&mut self, port: PortId, hold: Duration) {
        let (active, watched) = &mut self.active[port.index()];
        if !*watched {
            *watched = true;
            self.due.push(Reverse((*active + hold, port.0)));
            assert!(self.due.len() <= self.active.len(), "a port is watched once");
        }
    }
}

impl Flows {
    /// A flow waits at this port.
    pub(super) fn watch(&mut self, port: PortId) {
        self.stalls.watch(port, self.hold(port));
    }

    fn hold(&self, port: PortId) -> Duration {
        let window = f64::from(self.config.window) / self.world.rates[port.index()];
        // A port may be so slow that no duration holds its time.
        let slow = Duration::try_from_secs_f64(WINDOWS * window).unwrap_or(Duration::MAX);
        self.config.max_hold.max(slow)
    }

    pub(super) fn stalls_due(&mut self, now: Time) {
        while let Some(&Reverse((at, port))) = self.stalls.due.peek() {
            if at > now {
                break;
            }
            self.stalls.due.pop();
            let id = PortId(port);
            let watched = core::mem::replace(&mut self.stalls.active[id.index()].1, false);
            assert!(watched, "a port whose look is due was watched");
            if !self.gates.has_waiting(port) {
                continue;
            }
            if self.stalls.active[id.index()].0 + self.hold(id) <= now {
                self.gates.expire(port);
                self.release(now, id, PermitWhy::FailOpen);
            }
            if self.gates.has_waiting(port) {
                self.watch(id);
            }
        }
    }
}
