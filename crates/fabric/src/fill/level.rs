//! What the flows of a group would get at one port if it were the next to be full.

use super::{State, left};
use crate::network::Network;

/// A port with less than this share of its rate left is full; sums of thousands of rates keep to it.
pub(crate) const CLOSE: f64 = 1e-9;

/// Shares that differ by less than this are equal.
pub(crate) const SAME: f64 = 1e-12;

/// A port as its group sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Level {
    /// What a unit of weight gets, where the port holds somebody; infinite where it does not.
    pub(crate) share: f64,
    /// Whether it is for somebody whose rate is open, or who has more.
    wanted: bool,
    /// The least and the most that those have whom it held so far.
    least: f64,
    most: f64,
}

impl Level {
    /// Whether those whom it held so far can have more.
    pub(crate) fn rises(&self) -> bool {
        self.least < self.share * (1.0 - SAME)
    }

    /// The share at which something happens here, where something does. Those who can have more are
    /// let go at what they have: from there on their other ports count them.
    pub(crate) fn due(&self) -> Option<f64> {
        if self.rises() {
            return Some(self.least);
        }
        (self.wanted || self.most > self.share * (1.0 + SAME)).then_some(self.share)
    }
}

impl Network {
    /// What the group gets at the port: what is left after those before it, after those whose rate is
    /// found, and after those who are held elsewhere at less.
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
                State::Done(rate) => left -= rate,
                State::Open => {
                    weight += flow.demand.weight;
                    level.wanted = true;
                }
                State::Still => {
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
        // Who has more than that is cut: the greediest first, since each leaves more for the rest.
        while greediest > level.share * (1.0 + SAME) {
            level.wanted = true;
            let mut next = f64::NEG_INFINITY;
            for one in group {
                let flow = &self.flows[one.flow as usize];
                if flow.held == port || self.state(one.flow) != State::Still {
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

/// A unit's share of what is left; below nothing where a port is overfull with others.
fn share(left: f64, weight: f64, rate: f64) -> f64 {
    match weight > 0.0 {
        true => left / weight,
        false if left < -SAME * rate => f64::NEG_INFINITY,
        false => f64::INFINITY,
    }
}
