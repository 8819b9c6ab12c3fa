//! What an operator probably did not mean, though the name server can work with it.

use crate::problem::Problem;
use crate::respond::State;

/// Doubts about a state. The caller logs them when the configuration or the fleet's regions change.
#[must_use]
pub fn warnings(state: &State) -> Vec<Problem> {
    let mut found = Vec::new();
    unknown_regions(state, &mut found);
    hidden_regions(state, &mut found);
    if state.map.default_region().is_none() {
        let cause = "clients that no prefix contains get the addresses of all open regions";
        let remedy = "write the region that serves them";
        found.push(Problem::new("default", "none", cause, remedy));
    }
    if state.zone.servers.len() == 1 {
        let cause = "without it the name does not resolve";
        let remedy = "run a second control plane and list it here (RFC 2182)";
        found.push(Problem::new("nameservers", "one", cause, remedy));
    }
    found
}

fn unknown_regions(state: &State, found: &mut Vec<Problem>) {
    let known = &state.fleet.regions;
    for region in state.map.regions().filter(|region| !known.contains_key(*region)) {
        let is_default = state.map.default_region() == Some(region);
        let (field, cause) = if is_default {
            (
                "default",
                "the fleet has no such region, so the first one by name serves in its place",
            )
        } else {
            ("clients", "the fleet has no such region, so its clients belong to the default one")
        };
        found.push(Problem::new(field, region, cause, "mend the name, or add the region"));
    }
}

fn hidden_regions(state: &State, found: &mut Vec<Problem>) {
    for region in state.fleet.regions.keys() {
        let name = state.zone.name.prepend_label(region.as_bytes());
        match name {
            Ok(name) if state.zone.servers.iter().any(|server| server.name == name) => {
                let cause = "a region has this name, and REGION.ZONE leads to the name server";
                found.push(Problem::new(
                    "nameservers",
                    region,
                    cause,
                    "give the server another one",
                ));
            }
            Ok(_) => {}
            Err(_) => {
                let cause = "the region's name is not a label, so REGION.ZONE does not exist";
                let remedy = "use a name of at most 63 letters, digits and hyphens";
                found.push(Problem::new("regions", region, cause, remedy));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::fleet::{Fleet, Region};
    use crate::map::{ClientMap, entries_of_text};
    use crate::zone::{Settings, Zone};

    fn said(
        clients: &str,
        default: Option<&str>,
        servers: &[&str],
        regions: &[&str],
    ) -> Vec<String> {
        let address = vec!["192.0.2.1".parse().unwrap()];
        let nameservers = servers.iter().map(|name| ((*name).to_owned(), address.clone()));
        let settings = Settings {
            zone: "llm.example.org".to_owned(),
            nameservers: nameservers.collect(),
            ttl: Duration::from_secs(10),
            ..Settings::default()
        };
        let map = ClientMap::new(entries_of_text("clients", clients).unwrap(), default).unwrap();
        let regions = regions.iter().map(|name| ((*name).to_owned(), Region::default()));
        let fleet = Fleet { regions: regions.collect() };
        let state = State { zone: Zone::new(&settings).unwrap(), map: map.into(), fleet };
        warnings(&state).iter().map(ToString::to_string).collect()
    }

    // A usual configuration has none.
    #[test]
    fn a_usual_state_has_none() {
        assert_eq!(said("10.0.0.0/8 eu", Some("eu"), &["ns1", "ns2"], &["eu"]), [""; 0]);
    }

    // Each doubt names the setting and what to do.
    #[test]
    fn doubts_have_a_remedy() {
        let long = "x".repeat(64);
        let all = said("10.0.0.0/8 mars", Some("moon"), &["eu"], &["eu", &long]);
        assert_eq!(
            all,
            [
                "clients: mars: the fleet has no such region, so its clients belong to the default \
                 one; mend the name, or add the region",
                "default: moon: the fleet has no such region, so the first one by name serves in \
                 its place; mend the name, or add the region",
                "nameservers: eu: a region has this name, and REGION.ZONE leads to the name \
                 server; give the server another one",
                &format!(
                    "regions: {long}: the region's name is not a label, so REGION.ZONE does not \
                     exist; use a name of at most 63 letters, digits and hyphens"
                ),
                "nameservers: one: without it the name does not resolve; run a second control \
                 plane and list it here (RFC 2182)",
            ]
        );
        let none = said("", None, &["ns1", "ns2"], &[]);
        assert_eq!(
            none,
            ["default: none: clients that no prefix contains get the addresses of all open \
              regions; write the region that serves them"]
        );
    }
}
