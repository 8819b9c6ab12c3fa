//! `GET /admin/names`: who answers which name, and why.

use std::collections::BTreeSet;
use std::net::IpAddr;

use meridian_dns::{Answer, Decision, Family, Home, PassedOver, Serves, State, answer, nearest};
use meridian_protocol::admin::Query;
use meridian_protocol::registry::{NameRow, Names};

use super::super::Shared;
use super::super::answer::{Answered, Refusal, page};

/// All answers, or those for the client that `query` names.
pub(in super::super) fn names(shared: &Shared, query: &Query) -> Answered {
    let Some(dns) = &shared.dns else {
        let message =
            "this control plane does not serve names; add a section `dns` to its configuration";
        return Err(Refusal::new(http::StatusCode::NOT_FOUND, "no_dns", message));
    };
    let state = dns.state.borrow().clone();
    let rows = match query.text("client") {
        None => all(&state),
        Some(text) => {
            let client: IpAddr = text.parse().map_err(|_| {
                let shown: String = text.chars().take(40).collect();
                let message =
                    format!("client: `{shown}` is not an address; use one such as 10.1.2.3");
                Refusal::bad("invalid_client", message)
            })?;
            families(&state).into_iter().map(|family| of_client(&state, client, family)).collect()
        }
    };
    Ok(page(&Names { zone: state.zone.name(), rows }))
}

/// The families in which some gateway has an address; IPv4 if none has any.
fn families(state: &State) -> Vec<Family> {
    let has = |family: &Family| {
        state.fleet.regions.values().any(|region| !region.addresses(*family).is_empty())
    };
    let found: Vec<_> = [Family::V4, Family::V6].into_iter().filter(has).collect();
    if found.is_empty() { vec![Family::V4] } else { found }
}

fn kind(family: Family) -> String {
    match family {
        Family::V4 => "A",
        Family::V6 => "AAAA",
    }
    .to_owned()
}

fn all(state: &State) -> Vec<NameRow> {
    let fleet = state.fleet.regions.keys().map(String::as_str);
    let homes: BTreeSet<&str> = fleet.chain(state.map.regions()).collect();
    let mut rows = Vec::new();
    for family in families(state) {
        for home in &homes {
            let decided = nearest(&state.fleet, home, family);
            let client = format!("clients of {home}");
            rows.push(row(state.zone.name(), client, family, decided, Some(home)));
        }
        for (name, region) in &state.fleet.regions {
            let addresses = region.addresses(family);
            let why = match (region.gateways.is_empty(), addresses.is_empty()) {
                (true, _) => "no living gateway, and no other region may answer",
                (false, true) => "no address of that family, and no other region may answer",
                (false, false) => "the region's own name",
            };
            rows.push(NameRow {
                name: format!("{name}.{}", state.zone.name()),
                kind: kind(family),
                client: "anyone".to_owned(),
                regions: vec![name.clone()].into_iter().filter(|_| !addresses.is_empty()).collect(),
                addresses,
                why: why.to_owned(),
            });
        }
    }
    rows
}

fn of_client(state: &State, client: IpAddr, family: Family) -> NameRow {
    let Answer { home, serves, passed_over, scope } =
        answer(&state.map, &state.fleet, client, family);
    let found = match home {
        Home::Prefix { prefix, region } => format!("{prefix} is {region}"),
        Home::Default { region } => format!("no prefix; {region} by default"),
        Home::Unknown { prefix, named, .. } => format!("{prefix} is {named}, which is unknown"),
        Home::Nowhere => "no prefix and no default".to_owned(),
    };
    let decided = (serves, passed_over);
    let mut row = row(state.zone.name(), client.to_string(), family, decided, home.region());
    row.why = format!("{found}; {}; the same for its /{scope}", row.why);
    row
}

fn row(
    name: String,
    client: String,
    family: Family,
    (serves, passed_over): Decision<'_>,
    home: Option<&str>,
) -> NameRow {
    let (regions, addresses, why) = match serves {
        Serves::Region { name, addresses, .. } if home == Some(name) => {
            (vec![name], addresses, "their own region".to_owned())
        }
        Serves::Region { name, distance_ms, addresses } => {
            let distance = distance_ms.map_or_else(
                || "at an unknown distance".to_owned(),
                |ms| format!("{ms:.0} ms away"),
            );
            (vec![name], addresses, format!("the nearest that can, {distance}"))
        }
        Serves::Every { names, addresses } => (names, addresses, "all open regions".to_owned()),
        Serves::OtherFamily => (Vec::new(), Vec::new(), "only the other family".to_owned()),
        Serves::NoGateway => (Vec::new(), Vec::new(), "SERVFAIL".to_owned()),
    };
    let passed = |(region, why): &(&str, PassedOver)| format!("{region}: {}", why.reason());
    let passed: Vec<String> = passed_over.iter().map(passed).collect();
    let why = std::iter::once(why).chain(passed).collect::<Vec<_>>().join("; ");
    let regions = regions.into_iter().map(str::to_owned).collect();
    NameRow { name, kind: kind(family), client, regions, addresses, why }
}
