//! The rates that the flows of a group would get at one port if it were the next to be full.

use super::{FillState, left};
use crate::network::Network;

/// A port with less than this share of its rate left is full; sums of thousands of rates keep to it.
pub(crate) const CLOSE: f64 = 1e-9;

/// Shares that differ by less than this are equal.
pub(crate) const SAME: f64 = 1e-12;

/// A port as its group sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Level {
    /// The rate for a unit of weight if the port holds a flow; infinite if it does not.
    pub(crate) share: f64,
    /// Whether it is for a flow whose rate is open, or that has more.
    wanted: bool,
    /// The least and the most that the flows it held so far have.
    least: f64,
    most: f64,
}

impl Level {
    /// Whether the flows it held so far can have more.
    pub(crate) fn rises(&self) -> bool {
        self.least < self.share * (1.0 - SAME)
    }

    /// The share at which something happens here, if anything does. Flows that can have more are
    /// released at their current rate: from there on their other ports count them.
    pub(crate) fn due(&self) -> Option<f64> {
        if self.rises() {
            return Some(self.least);
        }
        (self.wanted || self.most > self.share * (1.0 + SAME)).then_some(self.share)
    }
}

impl Network {
    /// The group's level at the port: the capacity left after higher priorities, after flows whose
    /// rate is found, and after flows that other ports hold at less.
    pub(crate) fn level(&self, port: u32) -> Level {
        let (work, row) = (&self.scratch.work[port as usize], &self.ports[port as usize]);
        let group = &row.flows[work.from..work.to];
        let (mut left, mut weight) = (left(row.rate, work.before), 0.0);
        let mut level =
            Level { share: 0.0, wanted: false, least: f64::INFINITY, most: f64::NEG_INFINITY };
        let mut greediest = f64::NEG_INFINITY;
        for one in group {
            let flow = &self.flows[one.flow as usize];
            match self.state(one.flow) {
                FillState::Done(rate) => left -= rate,
                FillState::Open => {
                    weight += flow.demand.weight;
                    level.wanted = true;
                }
                FillState::Still => {
                    let share = flow.rate / flow.demand.weight;
                    if flow.held == port {
                        weight += flow.demand.weight;
                        (level.least, level.most) = (level.least.min(share), level.most.max(share));
                    } else {
                        left -= flow.rate;
                        greediest = greediest.max(share);
                    }
                }
            }
        }
        level.share = share(left, weight, row.rate);
        // A flow that has more than that is cut: the greediest first, since each leaves more for
        // the rest.
        while greediest > level.share * (1.0 + SAME) {
            level.wanted = true;
            let mut next = f64::NEG_INFINITY;
            for one in group {
                let flow = &self.flows[one.flow as usize];
                if flow.held == port || self.state(one.flow) != FillState::Still {
                    continue;
                }
                let share = flow.rate / flow.demand.weight;
                if share == greediest {
                    left += flow.rate;
                    weight += flow.demand.weight;
                } else if share < greediest {
                    next = next.max(share);
                }
            }
            level.share = share(left, weight, row.rate);
            greediest = next;
        }
        level.share = level.share.max(0.0);
        level
    }
}

/// The share per unit of weight; negative if other flows overfill the port.
fn share(left: f64, weight: f64, rate: f64) -> f64 {
    match weight > 0.0 {
        true => left / weight,
        false if left < -SAME * rate => f64::NEG_INFINITY,
        false => f64::INFINITY,
    }
}
