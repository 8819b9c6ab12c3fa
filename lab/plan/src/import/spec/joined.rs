//! Checks across servers: their names, and that they reach each other.

use super::{ServerSpec, TopologySpec, UnitSpec, is_host};
use crate::problem::Problems;

impl TopologySpec {
    /// Checks the names of hosts.
    pub(super) fn check_hosts(&self, found: &mut Problems) {
        let mut names = std::collections::BTreeSet::new();
        for (at, unit) in self.units.iter().enumerate() {
            for (nth, server) in unit.servers.iter().enumerate() {
                let field = format!("units[{at}].servers[{nth}].hosts");
                let fits = server.hosts.len() <= server.count as usize;
                let value = format!("{} names", server.hosts.len());
                found.unless(fits, &field, value, format!("give {} or fewer", server.count));
                let one = server.hosts.is_empty() || unit.count == 1;
                let remedy =
                    "only a unit with a count of 1 has host names; write the units one by one";
                found.unless(one, &field, format!("in {} units", unit.count), remedy);
                for name in &server.hosts {
                    let remedy = "use a name once, of letters, digits, `-` and `.`";
                    found.unless(is_host(name) && names.insert(name), &field, name, remedy);
                }
            }
        }
    }

    /// Checks that every server reaches every other one.
    pub(super) fn check_joined(&self, found: &mut Problems, servers: u64) {
        if servers < 2 {
            return;
        }
        let gpus = |unit: &UnitSpec, has: fn(&&ServerSpec) -> bool| -> u64 {
            let of = |one: &ServerSpec| u64::from(one.count) * u64::from(one.gpus);
            unit.servers.iter().filter(has).map(of).sum()
        };
        let each = |unit: &UnitSpec| u64::from(unit.count) * gpus(unit, |one| one.cards > 0);
        let joined: u64 = self.units.iter().map(each).sum();
        for (at, unit) in self.units.iter().enumerate() {
            for (nth, server) in unit.servers.iter().enumerate() {
                let field = format!("units[{at}].servers[{nth}].cards");
                let remedy = format!(
                    "the server is disconnected; give it a card and a card_rate, or leave it out: \
                     {joined} GPUs have cards"
                );
                found.unless(server.cards > 0, field, server.cards, remedy);
            }
        }
        let units: u64 = self.units.iter().map(|unit| u64::from(unit.count)).sum();
        let largest = self.units.iter().map(|unit| gpus(unit, |_| true)).max().unwrap_or(0);
        let remedy = format!(
            "nothing joins the {units} units; give core.switches, or plan each unit by itself, of \
             {largest} GPUs at most"
        );
        found.unless(units < 2 || self.core.is_some(), "core", "none", remedy);
        for (at, unit) in self.units.iter().enumerate().filter(|_| self.core.is_none()) {
            let rails = unit.access.count;
            let all = unit.servers.iter().all(|one| one.cards >= rails || one.cards == 0);
            let remedy = format!(
                "servers with fewer cards do not meet on every one of them: use fewer, give each \
                 server {rails} cards, or add a core"
            );
            found.unless(all, format!("units[{at}].access.count"), rails, remedy);
        }
    }
}
