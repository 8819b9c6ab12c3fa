//! Equations 16 to 18 of HeroServe as printed, for reproduction only.
//!
//! Every policy has a cost b, its last reported utilisation. The cheapest by b + delta is taken
//! with delta = D / (T_u b), and all policies' costs rise: the one taken by delta, others by delta
//! times their share f of its links. D is taken over the rate of the policy's slowest link, without
//! which the equation adds bytes a second to a ratio. b is in the denominator: the emptier a policy
//! is, the more an operation costs on it, and an idle one costs infinity. A minimum cost keeps that
//! finite.
//!
//! These equations never lower a cost. As in section IV, costs are set to the measured values
//! whenever the controller polls its counters, each T_u.

use meridian_base::{Duration, Time};

use super::balance::Pick;
use crate::collective::{Algorithm, Choice};
use crate::table::PolicyTable;
use crate::topology::{LinkId, Topology};

/// The minimum cost of a policy.
const IDLE: f64 = 0.01;
/// Smoothing of f (gamma).
const GAMMA: f64 = 0.1;

/// The scheduler of all groups of a table.
#[derive(Clone, Debug)]
pub struct Printed {
    window: f64,
    polled: Time,
    policies: Vec<Policy>,
    /// First policy of each group, and one past the last.
    groups: Vec<(usize, usize)>,
    /// f of each pair of policies, row by row.
    shared: Vec<f64>,
    /// Bytes since the last poll, by link of `links`.
    counted: Vec<f64>,
    links: Vec<(LinkId, f64)>,
}

#[derive(Clone, Debug)]
struct Policy {
    algorithm: Algorithm,
    cost: f64,
    /// Rate of its slowest link.
    rate: f64,
    /// Indices into the list of links, with bytes a byte.
    links: Vec<(usize, f64)>,
}

impl Printed {
    /// A scheduler with the window T_u in seconds, with all links idle.
    #[must_use]
    pub fn new(topology: &Topology, table: &PolicyTable, window: f64) -> Printed {
        let choices = || table.groups.iter().flat_map(|group| &group.choices);
        let mut links: Vec<LinkId> =
            choices().flat_map(|choice| choice.loads.iter().map(|(link, _)| link)).collect();
        links.sort_unstable();
        links.dedup();
        let at = |link| links.binary_search(&link).expect("it was collected from the same table");
        let policy = |choice: &Choice| Policy {
            algorithm: choice.algorithm,
            cost: IDLE,
            rate: choice
                .loads
                .iter()
                .map(|(link, _)| topology.usable(link))
                .fold(f64::INFINITY, f64::min),
            links: choice.loads.iter().map(|(link, load)| (at(link), load)).collect(),
        };
        let policies: Vec<Policy> = choices().map(policy).collect();
        let mut groups = Vec::new();
        let mut first = 0;
        for group in &table.groups {
            groups.push((first, first + group.choices.len()));
            first += group.choices.len();
        }
        let rated = |link: &LinkId| (*link, topology.usable(*link));
        let links: Vec<(LinkId, f64)> = links.iter().map(rated).collect();
        let counted = vec![0.0; links.len()];
        let shared = vec![0.0; policies.len() * policies.len()];
        let polled = Time::ZERO;
        let mut all = Printed { window, polled, policies, groups, shared, counted, links };
        all.share(1.0);
        all
    }

    /// Equations 16 and 17, for `count` consecutive operations of `each` bytes.
    pub fn pick(&mut self, now: Time, group: usize, each: f64, count: f64) -> Option<Pick> {
        self.poll(now);
        let bytes = each * count;
        let (first, end) = *self.groups.get(group)?;
        let delta = |policy: &Policy| bytes / (self.window * policy.rate) / policy.cost;
        let cost = |at: &usize| self.policies[*at].cost + delta(&self.policies[*at]);
        let chosen = (first..end).min_by(|a, b| cost(a).total_cmp(&cost(b)))?;
        let (cost, delta) = (cost(&chosen), delta(&self.policies[chosen]));
        let count = self.policies.len();
        for at in 0..count {
            let share = if at == chosen { 1.0 } else { self.shared[chosen * count + at] };
            self.policies[at].cost += delta * share;
        }
        for (link, load) in &self.policies[chosen].links {
            self.counted[*link] += load * bytes;
        }
        Some(Pick { way: chosen - first, algorithm: self.policies[chosen].algorithm, cost })
    }

    /// Counts other bytes than the table's operations.
    pub fn carried(&mut self, now: Time, link: LinkId, bytes: f64) {
        self.poll(now);
        if let Ok(at) = self.links.binary_search_by_key(&link, |(id, _)| *id) {
            self.counted[at] += bytes;
        }
    }

    /// Once a window: costs are set to the measured values, and f follows equation 18.
    fn poll(&mut self, now: Time) {
        let since = now.since(self.polled).as_secs_f64();
        if since < self.window {
            return;
        }
        let used = |at: usize| self.counted[at] / (self.links[at].1 * since);
        for policy in &mut self.policies {
            let fullest = policy.links.iter().map(|(link, _)| used(*link)).fold(0.0, f64::max);
            policy.cost = fullest.max(IDLE);
        }
        self.share(GAMMA);
        self.counted.fill(0.0);
        self.polled = now;
    }

    /// Equation 18: the share of a policy's links, weighted by their traffic, that the chosen one
    /// also uses.
    fn share(&mut self, gamma: f64) {
        let count = self.policies.len();
        // Weighted by bandwidth in use, or by the number of links while there is none.
        let weight = |link: usize| self.counted[link].max(1.0);
        for chosen in 0..count {
            for other in 0..count {
                let has = |link: usize| {
                    self.policies[chosen].links.binary_search_by_key(&link, |(at, _)| *at).is_ok()
                };
                let (mut both, mut all) = (0.0, 0.0);
                for (link, _) in &self.policies[other].links {
                    all += weight(*link);
                    both += if has(*link) { weight(*link) } else { 0.0 };
                }
                let share = if all > 0.0 { both / all } else { 0.0 };
                let f = &mut self.shared[chosen * count + other];
                *f = (1.0 - gamma) * *f + gamma * share;
            }
        }
    }

    /// The time of the next poll.
    #[must_use]
    pub fn next_poll(&self) -> Time {
        self.polled + Duration::from_secs_f64(self.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loads::Loads;
    use crate::table::GroupPolicy;

    // Correction 12, the paper's version: of two equal paths the idle one costs more, so the busy
    // one is chosen again; a poll sets the costs to the measured values.
    #[test]
    fn correction_12_as_printed_an_idle_path_costs_more() {
        let yaml = "version: 1\nunits:\n- servers:\n  - {count: 2, gpu: a100, gpus: 2, cards: 2, \
                    card_rate: 100Gb/s}\n";
        let topology = crate::import::TopologySpec::read(yaml).unwrap().build().unwrap();
        let card = |nth| topology.card(0, nth, crate::topology::Direction::Out);
        let choice = |algorithm, nth| {
            let mut loads = Loads::default();
            loads.add(&[card(nth)], 1.0);
            Choice { algorithm, latency: 0.0, per_byte: 1e-9, loads, bottleneck: None }
        };
        let choices = vec![choice(Algorithm::Ring, 0), choice(Algorithm::InNetwork, 1)];
        let group = GroupPolicy { members: Vec::new(), choices, rows: Vec::new() };
        let table = PolicyTable { epoch: 0, groups: vec![group] };
        let mut printed = Printed::new(&topology, &table, 0.1);
        // Of a hundredth of a card's window each: delta on the idle path is 1, on the busy one less.
        let bytes = 1e-2 * 0.1 * topology.usable(card(0));
        let first = printed.pick(Time::ZERO, 0, bytes, 1.0).unwrap();
        assert_eq!(first.algorithm, Algorithm::Ring);
        assert!((first.cost - (IDLE + 1.0)).abs() < 1e-9, "{first:?}");
        // Ring is at 1.01 now: 1.01 + 0.0099 against 0.01 + 1.
        assert!(printed.policies[0].cost > 1.0);
        let second = printed.pick(Time::ZERO, 0, bytes, 1.0).unwrap();
        assert!(second.cost > 1.0, "an idle path is not free: {second:?}");
        printed.carried(printed.next_poll(), card(0), 0.0);
        let measured = printed.policies[0].cost;
        assert!((measured - 0.01).abs() < 1e-9, "{measured}");
    }
}
