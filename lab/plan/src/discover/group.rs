//! Servers in units: equal ones become one entry with a count.

use std::collections::{BTreeMap, BTreeSet};

use super::server::Server;
use super::{Asked, Discovered};
use crate::import::{AccessSpec, CoreSpec, ServerSpec, TopologySpec, UnitSpec, VERSION};
use crate::problem::Problems;

/// The topology of the servers.
pub(super) fn grouped(servers: &[(&str, Server)], asked: &Asked) -> Result<Discovered, Problems> {
    check(servers, asked)?;
    let unit = |names: &[&str]| {
        let mut groups: Vec<ServerSpec> = Vec::new();
        for name in names {
            let own = servers.iter().find(|(server, _)| server == name);
            let Some((_, Server { spec, .. })) = own else { continue };
            let alike = |group: &&mut ServerSpec| same(group, spec);
            match groups.iter_mut().find(alike) {
                Some(group) => {
                    group.count += 1;
                    group.hosts.push((*name).to_owned());
                }
                None => {
                    groups.push(ServerSpec { hosts: vec![(*name).to_owned()], ..spec.clone() });
                }
            }
        }
        let access = AccessSpec { count: asked.access.unwrap_or(1), aggregation: None };
        UnitSpec { count: 1, access, servers: groups }
    };
    let all: Vec<&str> = servers.iter().map(|(name, _)| *name).collect();
    let units: Vec<UnitSpec> = if asked.units.is_empty() {
        vec![unit(&all)]
    } else {
        let of = |names: &Vec<String>| unit(&names.iter().map(String::as_str).collect::<Vec<_>>());
        asked.units.iter().map(of).collect()
    };
    let core = (units.len() > 1 || asked.core.is_some()).then(|| CoreSpec {
        switches: asked.core.unwrap_or(1),
        oversubscription: asked.oversubscription.unwrap_or(1.0),
        aggregation: None,
    });
    let name = asked.name.clone().unwrap_or_else(|| "discovered".to_owned());
    let spec = TopologySpec { version: VERSION, name, units, core, measured: Vec::new() };
    Problems(spec.problems()).or(())?;
    let conflicts = said(servers, |server| &server.conflicts);
    let mut notes = assumed(servers, &spec, asked);
    notes.extend(said(servers, |server| &server.notes));
    Ok(Discovered { spec, notes, conflicts })
}

/// Whether two servers differ in their names only.
fn same(group: &ServerSpec, spec: &ServerSpec) -> bool {
    ServerSpec { count: 1, hosts: Vec::new(), ..group.clone() } == *spec
}

/// Sentences about servers; one that holds for several names all of them.
fn said(servers: &[(&str, Server)], of: fn(&Server) -> &Vec<String>) -> Vec<String> {
    let mut all: Vec<(&String, Vec<&str>)> = Vec::new();
    for (name, server) in servers {
        for text in of(server) {
            match all.iter_mut().find(|(known, _)| *known == text) {
                Some((_, names)) => names.push(name),
                None => all.push((text, vec![name])),
            }
        }
    }
    all.iter().map(|(text, names)| format!("{}: {text}", names.join(", "))).collect()
}

/// What the file says about switches although no server knows it.
fn assumed(servers: &[(&str, Server)], spec: &TopologySpec, asked: &Asked) -> Vec<String> {
    let mut notes = Vec::new();
    let count = servers.len();
    if asked.units.is_empty() && count > 1 {
        notes.push(format!(
            "assumed: all {count} servers are under the same access switches; --unit says otherwise"
        ));
    }
    let several = spec.units.iter().flat_map(|unit| &unit.servers).any(|one| one.cards > 1);
    if asked.access.is_none() && (count > 1 || several) {
        notes.push(
            "assumed: one access switch for all cards of a unit; --access says otherwise"
                .to_owned(),
        );
    }
    if let Some(core) = &spec.core {
        if asked.core.is_none() {
            notes.push("assumed: one core switch; --core says otherwise".to_owned());
        }
        if asked.oversubscription.is_none() {
            let over = core.oversubscription;
            notes.push(format!(
                "assumed: an oversubscription of {over}; --oversubscription says otherwise"
            ));
        }
    }
    notes
}

/// Checks names and units.
fn check(servers: &[(&str, Server)], asked: &Asked) -> Result<(), Problems> {
    let mut found = Problems(Vec::new());
    let mut names = BTreeSet::new();
    for (name, _) in servers {
        let remedy = "two servers have this name; rename one of their files";
        found.unless(names.insert(*name), "server", *name, remedy);
    }
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for name in asked.units.iter().flatten() {
        *places.entry(name).or_default() += 1;
        let known: Vec<&str> = names.iter().copied().collect();
        let remedy = format!("use {}", crate::problem::one_of(name, &known));
        found.unless(names.contains(name.as_str()), "--unit", name, remedy);
    }
    for (name, _) in servers.iter().filter(|_| !asked.units.is_empty()) {
        let count = places.get(name).copied().unwrap_or(0);
        let remedy = format!("{name} must be in exactly one of the units");
        found.unless(count == 1, "--unit", format!("{name} in {count} units"), remedy);
    }
    if asked.oversubscription.is_some() && asked.core.is_none() && asked.units.len() < 2 {
        let value = asked.oversubscription.unwrap_or_default();
        let remedy = "there is one unit and no core; give --unit or --core, too";
        found.unless(false, "--oversubscription", value, remedy);
    }
    found.or(())
}
