//! From a gate's settings to the flow machine's.

use std::time::Duration;

use meridian_base::{PortId, Time};
use meridian_flow::{Config, Flows, Input, Limits, policy};
use meridian_messages::Settings;

use crate::error::SettingsError;

/// Transfers of one process at a time.
pub(crate) const FLOWS: u32 = 4096;
const REQUESTS: u32 = 4096;
const BATCHES: u32 = 1024;
const LAYERS: u16 = 1024;

/// Makes the machine with its ports, numbered as the settings list them.
pub(crate) fn machine(settings: &Settings, now: Time) -> Result<Flows, SettingsError> {
    let ports = u32::try_from(settings.ports.len()).unwrap_or(u32::MAX);
    let mut flows = Flows::new(config(settings, ports)?, 0)?;
    for (id, port) in (0..).map(PortId).zip(&settings.ports) {
        let bytes_per_second = rate(&port.name, port.gbps)?;
        flows.handle(now, Input::Port { id, bytes_per_second });
    }
    assert!(flows.poll().is_none(), "the machine takes every port of valid settings");
    Ok(flows)
}

fn config(settings: &Settings, ports: u32) -> Result<Config, SettingsError> {
    let found = policy::find(&settings.policy).ok_or_else(|| {
        let known: Vec<_> = policy::ALL.iter().map(|spec| spec.name).collect();
        SettingsError::Policy(settings.policy.clone(), known.join(", "))
    })?;
    if settings.ports.is_empty() {
        return Err(SettingsError::NoPorts);
    }
    for (at, port) in settings.ports.iter().enumerate() {
        if settings.ports[..at].iter().any(|other| other.name == port.name) {
            return Err(SettingsError::PortTwice(port.name.clone()));
        }
    }
    let limits = Limits {
        flows: FLOWS,
        requests: REQUESTS,
        batches: BATCHES,
        ports,
        uses: 2 * REQUESTS + 4 * FLOWS,
        layers: LAYERS,
    };
    let config = Config {
        chunk: settings.chunk,
        window: settings.window.unwrap_or(settings.chunk.saturating_mul(2)),
        // Out of range is refused by its own name below.
        max_hold: Duration::try_from_secs_f64(settings.hold_ms / 1e3).unwrap_or(Duration::MAX),
        limits,
        ..Config::new(found)
    };
    config.validate()?;
    Ok(config)
}

/// Bytes a second.
fn rate(port: &str, gbps: f64) -> Result<f64, SettingsError> {
    match (1e-3..=1e5).contains(&gbps) {
        true => Ok(gbps * 1e9 / 8.0),
        false => Err(SettingsError::Rate { port: port.to_owned(), gbps }),
    }
}
