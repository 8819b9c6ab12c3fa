//! Checks of a replica, shared by configurations and the registry.

use std::collections::BTreeMap;

use meridian_base::Role;

use super::AddReplica;
use crate::address::base_url;
use crate::peer::label;

/// Problems of a replica's addresses by region.
pub fn from_problems(from: &BTreeMap<String, String>) -> impl Iterator<Item = String> {
    let one = |(region, url): (&String, &String)| {
        let is_wrong = label("region", region).map(|_| ()).map_err(|e| e.to_string());
        let problem = is_wrong.and(base_url(url).map(|_| ())).err()?;
        Some(format!("from.{region}: {problem}"))
    };
    from.iter().filter_map(one)
}

/// Contradictions in a replica's role, transfer and bootstrap address, and numbers and models with which
/// it could serve nothing.
pub fn pool_problems(replica: &AddReplica) -> Vec<String> {
    let mut problems = served_problems(replica);
    if let Some(transfer) = replica.transfer.filter(|_| replica.role.is_both()) {
        problems.push(format!(
            "transfer: `{}` is for replicas that share requests; set `role` to prefill or decode, or remove it",
            transfer.name()
        ));
    }
    if let Some(address) = &replica.bootstrap {
        if replica.role.0 != Role::Prefill {
            problems.push(format!(
                "bootstrap: `{address}` is for prefill replicas; set `role: prefill`, or remove it"
            ));
        }
        if bootstrap(address).is_none() {
            problems.push(format!(
                "bootstrap: `{address}` is not a host with a port; write host:port, as in 10.0.0.7:8998"
            ));
        }
    }
    problems
}

/// Longest name of a replica. It is a label of metrics and the value of a header.
const MOST_NAME: usize = 63;

fn name_problem(name: &str) -> Option<String> {
    let fits = |c: u8| c.is_ascii_alphanumeric() || b"._-".contains(&c);
    let is_name = (1..=MOST_NAME).contains(&name.len()) && name.bytes().all(fits);
    let shown: String = name.chars().filter(|c| !c.is_control()).take(MOST_NAME).collect();
    (!is_name).then(|| {
        format!(
            "name: `{shown}` is not a replica's name; use 1 to {MOST_NAME} letters, digits and . _ -"
        )
    })
}

fn served_problems(replica: &AddReplica) -> Vec<String> {
    let mut problems = Vec::new();
    problems.extend(replica.name.as_deref().and_then(name_problem));
    if replica.kv_tokens == Some(0) {
        problems.push("kv_tokens: 0 tokens hold no prompt; write the engine's number, or remove the line for what it reports".to_owned());
    }
    if replica.slots == Some(0) {
        problems.push("slots: 0 would run no request; write the engine's number, or remove the line for what it reports".to_owned());
    }
    for (i, name) in replica.models.iter().enumerate() {
        let problem = if name.trim() != name || name.is_empty() || name.contains(char::is_control) {
            "is not a model's name; write it as the engine's /v1/models shows it"
        } else if name.contains('*') {
            "has a `*`, and names are compared as they are; write each name, or remove the list for what the engine reports"
        } else if replica.models[..i].contains(name) {
            "is there twice; remove one"
        } else {
            continue;
        };
        let shown: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
        problems.push(format!("models[{i}]: `{shown}` {problem}"));
    }
    problems
}

/// Host and port of a bootstrap server.
#[must_use]
pub fn bootstrap(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_host = !host.is_empty() && !host.contains(['/', ' ', '@']);
    port.parse().ok().filter(|port| *port > 0 && is_host).map(|port| (host, port))
}
