//! The gateway's file: every instance is a replica with its phase as role, so that the gateway
//! sends a prompt to one and the answer's request to another.

use serde_json::{Value, json};

use super::Unit;

/// What the gateway's file says of every replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewaySettings {
    /// The engine.
    pub engine: &'static str,
    /// The protocol by which KV is handed over.
    pub transfer: &'static str,
    /// The policy.
    pub policy: &'static str,
}

/// The settings that are rendered, and with which a plan is started on one machine. The policy is one
/// that does as the plan assumes: it splits every request, and sends the prompt to the instance with the
/// fewest tokens to compute. The default policy keeps a prompt at a decode instance if that is sooner for
/// it, which takes the decode instances' time for tokens.
pub const GATEWAY: GatewaySettings =
    GatewaySettings { engine: "vllm", transfer: "nixl", policy: "dynamo_kv" };

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
                "engine": GATEWAY.engine,
                "role": unit.instance().phase.name(),
                "transfer": GATEWAY.transfer,
            })
        })
        .collect();
    let replicas = super::yaml(&json!({"replicas": replicas}));
    let policy = GATEWAY.policy;
    format!("version: 1\nlisten: 0.0.0.0:{LISTEN}\npolicy: {policy}\n{replicas}")
}
