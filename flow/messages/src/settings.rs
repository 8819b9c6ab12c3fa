//! The settings of a gate.

use serde::{Deserialize, Serialize};

/// The settings of a gate: everything has a default except the ports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The flow policy; `meridian flow policies` lists them.
    #[serde(default = "policy")]
    pub policy: String,
    /// This host's name at the coordinator.
    #[serde(default)]
    pub node: String,
    /// The directions of this host's cards that transfers leave or arrive by.
    pub ports: Vec<Port>,
    /// Most bytes of a permit.
    #[serde(default = "chunk")]
    pub chunk: u32,
    /// Most bytes permitted and not completed on a port, in a traffic class and those above it: two
    /// chunks by default.
    #[serde(default)]
    pub window: Option<u32>,
    /// Milliseconds without progress after which a port has stalled and its permits expire.
    #[serde(default = "hold_ms")]
    pub hold_ms: f64,
    /// `host:port` of the coordinator; without it the node orders by its own requests alone.
    #[serde(default)]
    pub coordinator: Option<String>,
}

/// One direction of a card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Its name: the same on all nodes whose transfers cross it.
    pub name: String,
    /// 10^9 bits per second.
    pub gbps: f64,
}

impl Settings {
    /// The defaults, with these ports.
    #[must_use]
    pub fn new(ports: Vec<Port>) -> Settings {
        let (policy, chunk, hold_ms) = (policy(), chunk(), hold_ms());
        Settings {
            policy,
            node: String::new(),
            ports,
            chunk,
            window: None,
            hold_ms,
            coordinator: None,
        }
    }
}

fn policy() -> String {
    "mfs".to_owned()
}

fn chunk() -> u32 {
    256 << 10
}

fn hold_ms() -> f64 {
    5.0
}
