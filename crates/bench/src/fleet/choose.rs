//! The choosers of a way for each step's all-reduces, by system.

use meridian_base::{Duration, PortId, Time};
use meridian_plan::online::{Balance, Pick, Printed, Settings};
use meridian_plan::{LinkId, PolicyTable, Topology};
use meridian_sim::fleet::Choose;

use super::system::{Mode, System};

/// T_u, in seconds.
const WINDOW: f64 = 0.1;

/// A chooser, with the links of the simulation's ports.
pub struct Chooser {
    rule: Rule,
    table: PolicyTable,
    links: Vec<LinkId>,
    /// Until when each group is considered busy.
    busy: Vec<Time>,
    picked: [u64; 4],
}

enum Rule {
    /// The fastest without contention.
    Fastest,
    /// The first, or the second while another group is busy.
    Atp,
    Printed(Printed),
    Balance(Balance),
}

impl Chooser {
    /// The chooser of a system; `links` are those of the simulation's first ports.
    #[must_use]
    pub fn new(
        system: System,
        mode: Mode,
        topology: &Topology,
        table: PolicyTable,
        links: Vec<LinkId>,
    ) -> Chooser {
        let rule = match (system, mode) {
            (System::DsAtp, _) => Rule::Atp,
            (System::Heroserve, Mode::Paper) => {
                Rule::Printed(Printed::new(topology, &table, WINDOW))
            }
            (System::Heroserve, Mode::Corrected) => {
                Rule::Balance(Balance::new(topology, &table, Settings::default()))
            }
            _ => Rule::Fastest,
        };
        let busy = vec![Time::ZERO; table.groups.len()];
        Chooser { rule, table, links, busy, picked: [0; 4] }
    }

    /// How often each algorithm was chosen: ring, tree, relayed, in-network.
    #[must_use]
    pub fn picked(&self) -> [u64; 4] {
        self.picked
    }

    fn pick(&mut self, now: Time, group: usize, bytes: f64, count: f64) -> usize {
        let way = |pick: Option<Pick>| pick.map_or(0, |pick| pick.way);
        match &mut self.rule {
            Rule::Fastest => {
                let choices = self.table.groups[group].choices.iter().enumerate();
                let seconds = |one: &meridian_plan::collective::Choice| one.seconds(bytes);
                let fastest = choices.min_by(|a, b| seconds(a.1).total_cmp(&seconds(b.1)));
                fastest.map_or(0, |(nth, _)| nth)
            }
            Rule::Atp => {
                let others = self.busy.iter().enumerate();
                let met =
                    others.filter(|(other, _)| *other != group).any(|(_, until)| *until > now);
                usize::from(met)
            }
            Rule::Printed(printed) => way(printed.pick(now, group, bytes, count)),
            Rule::Balance(balance) => way(balance.pick(now, group, bytes, count)),
        }
    }
}

impl Choose for Chooser {
    fn choose(&mut self, now: Time, group: usize, bytes: f64, count: f64) -> usize {
        let way = self.pick(now, group, bytes, count);
        let choices = &self.table.groups[group].choices;
        let choice = &choices[way.min(choices.len() - 1)];
        // A group inside a server uses no switch.
        if choices.len() > 1 {
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
