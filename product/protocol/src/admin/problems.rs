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

/// Contradictions in a replica's role, transfer and bootstrap address.
pub fn pool_problems(replica: &AddReplica) -> Vec<String> {
    let mut problems = Vec::new();
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

/// Host and port of a bootstrap server.
#[must_use]
pub fn bootstrap(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_host = !host.is_empty() && !host.contains(['/', ' ', '@']);
    port.parse().ok().filter(|port| *port > 0 && is_host).map(|port| (host, port))
}
