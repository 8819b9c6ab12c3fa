//! The corrected scheduler: each operation takes the algorithm whose fullest link stays emptiest.
//!
//! A link's utilisation is an average that decays with the window T_u: an operation that puts D_e
//! bytes on a link of C_e bytes a second raises it by delta_e = D_e / (T_u C_e), and all
//! utilisations fall by a factor e in T_u. A steady flow of r bytes a second then counts as r /
//! C_e. The cost of a way is the maximum over its links of u_e + delta_e. Groups interact through
//! shared links, so the paper's penalty f (equation 18) is not needed.
//!
//! Ways of equal cost differ in their load on the other links; the one that adds least is chosen. A
//! way that is much slower without contention than the fastest is not a candidate, however empty
//! its links are: [`Settings::slack`].
//!
//! All utilisations decay equally, so they are stored as of one time with one current factor. A
//! choice costs a multiplication and a maximum for each link of each way.

use meridian_base::Time;

use crate::collective::{Algorithm, Choice};
use crate::table::{GroupPolicy, PolicyTable};
use crate::topology::{LinkId, Topology};

/// Settings of the choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The window T_u, in seconds.
    pub window: f64,
    /// How many times as long as the fastest way a candidate may take on empty links.
    pub slack: f64,
}

impl Default for Settings {
    /// HeroServe's 100 ms; ways up to 1.5 times as long.
    fn default() -> Settings {
        Settings { window: 0.1, slack: 1.5 }
    }
}

/// A choice and its reason.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pick {
    /// Index in the group's ways.
    pub way: usize,
    /// Its name.
    pub algorithm: Algorithm,
    /// The utilisation of its fullest link, with this operation.
    pub cost: f64,
}

/// The scheduler of all groups of a table.
#[derive(Clone, Debug)]
pub struct Balance {
    settings: Settings,
    /// The table's links, in order; elsewhere in this file an index into this list identifies a
    /// link.
    links: Vec<LinkId>,
    /// Utilisation of one byte: 1 / (T_u C_e).
    byte: Vec<f64>,
    /// Utilisation, before `faded`.
    used: Vec<f64>,
    /// The factor by which `used` has decayed at `now`.
    faded: f64,
    now: Time,
    groups: Vec<Vec<Priced>>,
    /// A link, and the utilisation that one byte of the message adds to it.
    loads: Vec<(u32, f64)>,
}

/// A choice with its cost.
#[derive(Clone, Copy, Debug)]
struct Priced {
    algorithm: Algorithm,
    latency: f64,
    per_byte: f64,
    /// Its part of the loads.
    first: u32,
    end: u32,
}

/// Below this, utilisations are rescaled to the present.
const FADED: f64 = 1e-9;

impl Balance {
    /// A scheduler of the table's groups, with all links empty.
    #[must_use]
    pub fn new(topology: &Topology, table: &PolicyTable, settings: Settings) -> Balance {
        let choices = || table.groups.iter().flat_map(|group| &group.choices);
        let mut links: Vec<LinkId> =
            choices().flat_map(|choice| choice.loads.iter().map(|(link, _)| link)).collect();
        links.sort_unstable();
        links.dedup();
        let byte = |link: &LinkId| 1.0 / (settings.window * topology.usable(*link));
        let byte: Vec<f64> = links.iter().map(byte).collect();
        let mut loads = Vec::new();
        let mut way = |choice: &Choice| {
            let first = loads.len() as u32;
            for (link, share) in choice.loads.iter() {
                let at = links.binary_search(&link).expect("it was collected from the same table");
                loads.push((at as u32, share * byte[at]));
            }
            // The fullest come first, so that bad ways are rejected soonest.
            loads[first as usize..].sort_by(|a, b| b.1.total_cmp(&a.1));
            let Choice { algorithm, latency, per_byte, .. } = *choice;
            Priced { algorithm, latency, per_byte, first, end: loads.len() as u32 }
        };
        let group = |group: &GroupPolicy| group.choices.iter().map(&mut way).collect();
        let groups = table.groups.iter().map(group).collect();
        let used = vec![0.0; links.len()];
        Balance { settings, links, byte, used, faded: 1.0, now: Time::ZERO, groups, loads }
    }

    /// Chooses and records the way of `count` consecutive operations of `each` bytes; `None` for a
    /// group that the table does not have.
    pub fn pick(&mut self, now: Time, group: usize, each: f64, count: f64) -> Option<Pick> {
        self.forward(now);
        let ways = self.groups.get(group)?;
        let alone = |way: &Priced| way.latency + way.per_byte * each;
        let bytes = each * count;
        let fastest = ways.iter().map(alone).fold(f64::INFINITY, f64::min);
        let mut best: Option<(usize, f64, f64)> = None;
        for (nth, way) in ways.iter().enumerate() {
            if alone(way) > fastest * self.settings.slack {
                continue;
            }
            let most = best.map_or(f64::INFINITY, |(_, cost, _)| cost);
            let Some((cost, added)) = self.cost(way, bytes, most) else { continue };
            let less = best.is_none_or(|(_, least, sum)| cost < least || added < sum);
            if less {
                best = Some((nth, cost, added));
            }
        }
        let (nth, cost, _) = best?;
        let way = ways[nth];
        for (link, byte) in &self.loads[way.first as usize..way.end as usize] {
            self.used[*link as usize] += byte * bytes / self.faded;
        }
        Some(Pick { way: nth, algorithm: way.algorithm, cost })
    }

    /// The utilisation of the fullest link and the total added, unless it is above `most`.
    fn cost(&self, way: &Priced, bytes: f64, most: f64) -> Option<(f64, f64)> {
        let (mut cost, mut added) = (0.0_f64, 0.0);
        for (link, byte) in &self.loads[way.first as usize..way.end as usize] {
            let more = byte * bytes;
            cost = cost.max(self.used[*link as usize] * self.faded + more);
            if cost > most {
                return None;
            }
            added += more;
        }
        Some((cost, added))
    }

    /// Counts other bytes than the table's operations: KV, or further traffic in a switch's
    /// counters. A link that no group uses is ignored.
    pub fn carried(&mut self, now: Time, link: LinkId, bytes: f64) {
        self.forward(now);
        if let Ok(at) = self.links.binary_search(&link) {
            self.used[at] += self.byte[at] * bytes / self.faded;
        }
    }

    /// A link's utilisation; 0 for one that no group uses.
    #[must_use]
    pub fn utilisation(&self, link: LinkId) -> f64 {
        self.links.binary_search(&link).map_or(0.0, |at| self.used[at] * self.faded)
    }

    fn forward(&mut self, now: Time) {
        if now <= self.now {
            return;
        }
        let since = now.since(self.now).as_secs_f64();
        self.faded *= libm::exp(-since / self.settings.window);
        self.now = now;
        if self.faded < FADED {
            self.used.iter_mut().for_each(|used| *used *= self.faded);
            self.faded = 1.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loads::Loads;

    fn topology() -> Topology {
        let yaml = "version: 1\nunits:\n- servers:\n  - {count: 2, gpu: a100, gpus: 2, cards: 2, \
                    card_rate: 100Gb/s}\n";
        crate::import::TopologySpec::read(yaml).unwrap().build().unwrap()
    }

    fn card(topology: &Topology, nth: u32) -> LinkId {
        topology.card(0, nth, crate::topology::Direction::Out)
    }

    fn choice(algorithm: Algorithm, seconds: f64, links: &[LinkId]) -> Choice {
        let mut loads = Loads::default();
        loads.add(links, 1.0);
        Choice { algorithm, latency: seconds, per_byte: 0.0, loads, bottleneck: None }
    }

    fn table(groups: Vec<Vec<Choice>>) -> PolicyTable {
        let group = |choices| GroupPolicy { members: Vec::new(), choices, rows: Vec::new() };
        PolicyTable { epoch: 0, groups: groups.into_iter().map(group).collect() }
    }

    // Correction 12: an idle path costs only the operation's own load; a busy path costs its load
    // in addition; both groups see the load on shared links.
    #[test]
    fn correction_12_an_idle_path_is_cheap() {
        let topology = topology();
        let (a, b) = (card(&topology, 0), card(&topology, 1));
        let both =
            || vec![choice(Algorithm::Ring, 1.0, &[a]), choice(Algorithm::InNetwork, 1.0, &[b])];
        let mut balance =
            Balance::new(&topology, &table(vec![both(), both()]), Settings::default());
        let bytes = 1e6;
        let delta = bytes / (0.1 * topology.usable(a));
        let first = balance.pick(Time::ZERO, 0, bytes, 1.0).unwrap();
        assert!((first.cost - delta).abs() < 1e-12, "{first:?}");
        assert_eq!(first.algorithm, Algorithm::Ring);
        let second = balance.pick(Time::ZERO, 1, bytes, 1.0).unwrap();
        assert_eq!(second.algorithm, Algorithm::InNetwork);
        let third = balance.pick(Time::ZERO, 0, bytes, 1.0).unwrap();
        assert!((third.cost - 2.0 * delta).abs() < 1e-12);
        assert_eq!(balance.pick(Time::ZERO, 2, bytes, 1.0), None);
    }

    // Correction 12: a steady flow counts as its share of the link, and decays after it ends.
    #[test]
    fn correction_12_utilisation_fades_with_the_window() {
        let topology = topology();
        let link = card(&topology, 0);
        let groups = table(vec![vec![choice(Algorithm::Ring, 1.0, &[link])]]);
        let mut balance = Balance::new(&topology, &groups, Settings::default());
        let half = topology.usable(link) / 2.0;
        for ms in 0..5000 {
            balance.carried(Time::from_millis(ms), link, half / 1e3);
        }
        assert!((balance.utilisation(link) - 0.5).abs() < 0.01, "{}", balance.utilisation(link));
        balance.carried(Time::from_millis(6000), link, 0.0);
        assert!(balance.utilisation(link) < 1e-4);
        // However far apart times are, no precision is lost.
        balance.carried(Time::from_millis(1_000_000), link, half);
        assert!((balance.utilisation(link) - 5.0).abs() < 1e-9);
    }

    // A way over an empty link is not chosen if it is slow without contention, and of equal ways
    // the one that adds the least in total is chosen.
    #[test]
    fn slow_ways_are_no_candidates() {
        let topology = topology();
        let (a, b) = (card(&topology, 0), card(&topology, 1));
        let slow = vec![choice(Algorithm::Ring, 1.0, &[a]), choice(Algorithm::Tree, 2.0, &[b])];
        let equal = vec![choice(Algorithm::Ring, 1.0, &[a, b]), choice(Algorithm::Tree, 1.0, &[a])];
        let mut balance = Balance::new(&topology, &table(vec![slow, equal]), Settings::default());
        for _ in 0..3 {
            assert_eq!(balance.pick(Time::ZERO, 0, 1e6, 1.0).unwrap().algorithm, Algorithm::Ring);
        }
        assert_eq!(balance.pick(Time::ZERO, 1, 1e6, 1.0).unwrap().algorithm, Algorithm::Tree);
    }
}
