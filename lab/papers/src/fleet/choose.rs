//! The choosers of a way for each step's all-reduces, by system.

use meridian_base::{Duration, PortId, Time};
use meridian_plan::collective::{Algorithm, Choice};
use meridian_plan::online::{Balance, Pick, Printed, Settings};
use meridian_plan::{GroupPolicy, LinkId, PolicyTable, Topology};
use meridian_sim::fleet::Choose;

use super::assumptions::{Assumption, Assumptions};
use super::system::{self, System};

/// T_u, in seconds.
const WINDOW: f64 = 0.1;

/// A chooser, with the links of the simulation's ports.
pub struct Chooser {
    rule: Rule,
    table: PolicyTable,
    links: Vec<LinkId>,
    /// Seconds that ATP's parameter server takes for a byte of each group, if all groups send to it.
    server: Vec<f64>,
    /// Until when each group is considered to use the switch.
    busy: Vec<Time>,
    picked: [u64; 4],
}

enum Rule {
    /// The fastest without contention.
    Fastest,
    /// The same, but for the second while no other group is busy, or the first while one is.
    Atp,
    Printed(Printed),
    Balance(Balance),
}

impl Chooser {
    /// The chooser of a system; `links` are those of the simulation's first ports.
    #[must_use]
    pub fn new(
        system: System,
        assumed: Assumptions,
        topology: &Topology,
        table: PolicyTable,
        links: Vec<LinkId>,
    ) -> Chooser {
        let alone = assumed.has(Assumption::Alone);
        let rule = match system {
            System::Heroserve if assumed.has(Assumption::PrintedChoice) => {
                Rule::Printed(Printed::new(topology, &table, WINDOW))
            }
            System::Heroserve if !alone => {
                Rule::Balance(Balance::new(topology, &table, Settings::default()))
            }
            System::DsAtp if !alone => Rule::Atp,
            _ => Rule::Fastest,
        };
        let busy = vec![Time::ZERO; table.groups.len()];
        let switched = |group: &&GroupPolicy| {
            group.choices.first().is_some_and(|one| one.algorithm == Algorithm::InNetwork)
        };
        let count = table.groups.iter().filter(switched).count() as f64;
        let each = system::parameter_server(topology) / count.max(1.0);
        let server = table.groups.iter().map(|group| {
            group.choices.first().map_or(0.0, |switch| system::missed(topology, switch) / each)
        });
        let server = server.collect();
        Chooser { rule, table, links, server, busy, picked: [0; 4] }
    }

    /// How often each algorithm was chosen: ring, tree, relayed, in-network.
    #[must_use]
    pub fn picked(&self) -> [u64; 4] {
        self.picked
    }

    fn pick(&mut self, now: Time, group: usize, bytes: f64, count: f64) -> usize {
        let way = |pick: Option<Pick>| pick.map_or(0, |pick| pick.way);
        match &mut self.rule {
            Rule::Fastest => fastest(&self.table.groups[group].choices, bytes, None),
            Rule::Atp => {
                let mut others = self.busy.iter().enumerate();
                let met = others.any(|(other, until)| other != group && *until > now);
                let choices = &self.table.groups[group].choices;
                let switch = choices.first().map(|one| one.algorithm);
                match met {
                    _ if switch != Some(Algorithm::InNetwork) => fastest(choices, bytes, None),
                    false => fastest(choices, bytes, Some(1)),
                    true => crowded(choices, bytes, self.server[group]),
                }
            }
            Rule::Printed(printed) => way(printed.pick(now, group, bytes, count)),
            Rule::Balance(balance) => way(balance.pick(now, group, bytes, count)),
        }
    }
}

/// The fastest for a size without contention, except for one.
fn fastest(choices: &[Choice], bytes: f64, except: Option<usize>) -> usize {
    let able = choices.iter().enumerate();
    // A group inside a server has one way.
    let able = able.filter(|(nth, _)| choices.len() == 1 || Some(*nth) != except);
    let all = able.min_by(|a, b| a.1.seconds(bytes).total_cmp(&b.1.seconds(bytes)));
    all.map_or(0, |(nth, _)| nth)
}

/// The same for ATP while others use the switch: packets without a slot take `server` seconds a byte.
fn crowded(choices: &[Choice], bytes: f64, server: f64) -> usize {
    let mut choices = choices.to_vec();
    if let Some(fallback) = choices.get_mut(1) {
        fallback.per_byte = fallback.per_byte.max(server);
    }
    fastest(&choices, bytes, Some(0))
}

impl Choose for Chooser {
    fn choose(&mut self, now: Time, group: usize, bytes: f64, count: f64) -> usize {
        let way = self.pick(now, group, bytes, count);
        let choices = &self.table.groups[group].choices;
        let choice = &choices[way.min(choices.len() - 1)];
        if choice.algorithm == Algorithm::InNetwork {
            self.busy[group] = now + Duration::from_secs_f64(count * choice.seconds(bytes));
        }
        self.picked[choice.algorithm as usize] += count as u64;
        way
    }

    fn carried(&mut self, now: Time, loads: &[(PortId, f64)], bytes: f64) {
        for (port, load) in loads {
            let Some(link) = self.links.get(port.index()) else { continue };
            match &mut self.rule {
                Rule::Printed(printed) => printed.carried(now, *link, load * bytes),
                Rule::Balance(balance) => balance.carried(now, *link, load * bytes),
                Rule::Fastest | Rule::Atp => {}
            }
        }
    }
}
