//! The gateway's file: every instance is a replica with its phase as role, so that the gateway
//! sends a prompt to one and the answer's request to another.

use serde_json::{Value, json};

use super::Unit;

/// The port of the gateway's clients.
pub(super) const LISTEN: u16 = 8080;

const HEAD: &str = "\
# The gateway in front of the plan's instances: meridian check -c gateway.yaml --live, then
# meridian gateway -c gateway.yaml. Add tenants or limits before clients reach it.
";

/// The file with the servers' names.
pub(super) fn file(units: &[Unit<'_>]) -> String {
    format!("{HEAD}{}", text(units.iter().map(|unit| (unit, unit.head()))))
}

/// The file with the given host for each instance.
pub(super) fn text<'a, 'u: 'a>(hosts: impl Iterator<Item = (&'a Unit<'u>, &'a str)>) -> String {
    let replicas: Vec<Value> = hosts
        .map(|(unit, host)| {
            json!({
                "url": format!("http://{host}:{}", unit.ports.serve),
                "engine": "vllm",
                "role": unit.instance().phase.name(),
                "transfer": "nixl",
            })
        })
        .collect();
    let replicas = super::yaml(&json!({"replicas": replicas}));
    format!("version: 1\nlisten: 0.0.0.0:{LISTEN}\n{replicas}")
}
