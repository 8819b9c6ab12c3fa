//! Timed work: updates of handoffs, aging of flows, collectives that have waited too long, and
//! fetches that become urgent.
//!
//! All waits of the first three kinds are equally long, so each is a queue in order of time. Entries of
//! flows or requests that have ended are recognised by their incarnation and skipped. Updates fall
//! on a common grid, so a driver wakes once for all of them.

use alloc::collections::{BinaryHeap, VecDeque};
use core::cmp::Reverse;
use meridian_base::{Duration, Time};

use super::{Flows, Output};
use crate::config::Config;
use crate::why::PermitWhy;

/// The queues: when, which row, and its incarnation (or its ask).
#[derive(Debug)]
pub(super) struct Due {
    updates: VecDeque<(Time, u32, u32)>,
    aging: VecDeque<(Time, u32, u32)>,
    holds: VecDeque<(Time, u32, u64)>,
    /// When fetches of batches become urgent, with the batches' numbers.
    urgent: BinaryHeap<Reverse<(Time, u32, u64)>>,
    grid: u64,
    look: Duration,
    hold: Duration,
    /// Bytes permitted beyond a window so far.
    open: u64,
    /// Whether updates include every request.
    pub(super) always: bool,
}

/// How many times a flow's age is checked within the interval after which it rises.
const LOOKS: u32 = 4;

impl Due {
    pub(super) fn new(config: &Config) -> Due {
        assert!(!config.update.is_zero(), "updates have a time between them");
        let (flows, requests) = (config.limits.flows as usize, config.limits.requests as usize);
        Due {
            updates: VecDeque::with_capacity(requests),
            aging: VecDeque::with_capacity(flows),
            holds: VecDeque::with_capacity(flows),
            urgent: BinaryHeap::with_capacity(config.limits.batches as usize),
            grid: config.update.as_nanos() as u64,
            look: (config.aging / LOOKS).max(Duration::from_nanos(1)),
            hold: config.max_hold,
            open: 0,
            always: false,
        }
    }

    pub(super) fn next(&self) -> Option<Time> {
        let updates = self.updates.front().map(|due| due.0);
        let aging = self.aging.front().map(|due| due.0);
        let holds = self.holds.front().map(|due| due.0);
        let urgent = self.urgent.peek().map(|due| due.0.0);
        [updates, aging, holds, urgent].into_iter().flatten().min()
    }

    pub(super) fn update(&mut self, now: Time, request: u32, incarnation: u32) {
        let at = (now.as_nanos() / self.grid + 1).saturating_mul(self.grid);
        let last = self.updates.back();
        assert!(last.is_none_or(|last| last.0.as_nanos() <= at), "updates are queued by time");
        self.updates.push_back((Time::from_nanos(at), request, incarnation));
    }

    pub(super) fn age(&mut self, now: Time, flow: u32, incarnation: u32) {
        let at = now + self.look;
        assert!(self.aging.back().is_none_or(|last| last.0 <= at), "aging is queued by time");
        self.aging.push_back((at, flow, incarnation));
    }

    pub(super) fn hold(&mut self, now: Time, flow: u32, ask: u64) {
        let at = now + self.hold;
        assert!(self.holds.back().is_none_or(|last| last.0 <= at), "holds are queued by time");
        self.holds.push_back((at, flow, ask));
    }

    pub(super) fn urgency(&mut self, at: Time, batch: u32, sequence: u64) {
        self.urgent.push(Reverse((at, batch, sequence)));
    }

    /// Whether most entries are of batches that have departed.
    pub(super) fn is_stale(&self, batches: usize) -> bool {
        self.urgent.len() > 64 + 4 * batches
    }

    /// Keeps only entries of batches that are there.
    pub(super) fn sweep(&mut self, live: impl Fn(u32, u64) -> bool) {
        self.urgent.retain(|Reverse((_, batch, sequence))| live(*batch, *sequence));
    }

    pub(super) fn failed_open(&self) -> u64 {
        self.open
    }
}

impl Flows {
    /// Does all work that is due at `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        self.advance(now);
        self.updates_due(now);
        self.aging_due(now);
        self.holds_due(now);
        self.stalls_due(now);
        self.urgency_due(now);
    }

    fn urgency_due(&mut self, now: Time) {
        while let Some(&Reverse((at, batch, sequence))) = self.due.urgent.peek() {
            if at > now {
                break;
            }
            self.due.urgent.pop();
            let row = &mut self.world.batches[batch as usize];
            if row.live && row.sequence == sequence {
                row.checks = Time::MAX;
                self.check_urgency(now, batch);
            }
        }
    }

    fn updates_due(&mut self, now: Time) {
        while let Some(&(at, request, incarnation)) = self.due.updates.front() {
            if at > now {
                break;
            }
            self.due.updates.pop_front();
            let row = self.world.request(request);
            if row.live && row.incarnation == incarnation {
                if self.due.always || row.look_again <= now {
                    self.update(now, request);
                }
                self.due.update(now, request, incarnation);
            }
        }
    }

    fn aging_due(&mut self, now: Time) {
        while let Some(&(at, flow, incarnation)) = self.due.aging.front() {
            if at > now {
                break;
            }
            self.due.aging.pop_front();
            let aging = self.config.aging;
            let row = &mut self.world.flows[flow as usize];
            if !row.live || row.incarnation != incarnation {
                continue;
            }
            if now.since(row.waits_since) >= aging {
                row.waits_since = now;
                row.lift = row.lift.saturating_add(1);
                self.place_again(now, flow);
            }
            self.due.age(now, flow, incarnation);
        }
    }

    fn holds_due(&mut self, now: Time) {
        while let Some(&(at, flow, ask)) = self.due.holds.front() {
            if at > now {
                break;
            }
            self.due.holds.pop_front();
            if self.gates.ask_of(flow) == ask {
                let row = self.world.flow(flow);
                let (port, traffic) = (row.ports.as_slice()[0], row.place.traffic);
                let bytes = self.gates.permit(port.0, flow);
                self.stalls.active(now, port);
                self.due.open = self.due.open.saturating_add(u64::from(bytes));
                let (flow, why) = (meridian_base::FlowId(flow), PermitWhy::FailOpen);
                self.outputs.push_back(Output::Permit { flow, bytes, traffic, why });
            }
        }
    }
}
