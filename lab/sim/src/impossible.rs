//! Errors for inconsistent scenarios.

use meridian_base::Duration;
use meridian_base::residency::MOST_PLACES;
use meridian_engine::ConfigError;
use meridian_routing::MOST_REPLICA_IDS;

use crate::scenario::{Scenario, Topology};

/// The shortest lease: a decode engine extends it every sixth of it.
const LEAST_LEASE: Duration = Duration::from_millis(6);

/// Why a scenario cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum Impossible {
    /// An engine's settings are inconsistent.
    #[error("replica {replica}: {why}")]
    Engine {
        /// Its index in the scenario.
        replica: usize,
        /// The error.
        why: ConfigError,
    },
    /// Something names a region that does not exist.
    #[error("{what} names region {region}, and there are {regions}: use 0 to {}", regions - 1)]
    Region {
        /// The item that names it.
        what: &'static str,
        /// The index named.
        region: usize,
        /// Number of regions.
        regions: usize,
    },
    /// A replica names a rack that does not exist.
    #[error("replica {replica} is in rack {rack}, and there are {racks}: add it, or leave it out")]
    Rack {
        /// The replica's index in the scenario.
        replica: usize,
        /// The index named.
        rack: usize,
        /// Number of racks.
        racks: usize,
    },
    /// A card or an uplink carries nothing.
    #[error("{what} {at} has {gbps} Gb/s: use a rate above 0")]
    Rate {
        /// The item that has the rate.
        what: &'static str,
        /// Its index.
        at: usize,
        /// The rate.
        gbps: f64,
    },
    /// A lease of which no sixth can be timed.
    #[error("replica {replica} holds KV for {lease:?}: use a lease of 6 ms or more")]
    Lease {
        /// The replica's index in the scenario.
        replica: usize,
        /// Its lease.
        lease: Duration,
    },
    /// The RTTs do not fit the regions.
    #[error("wan.rtt_ms has {rows} rows for {regions} regions: give one row and column a region")]
    Matrix {
        /// Rows found, or the length of the row that is wrong.
        rows: usize,
        /// Regions.
        regions: usize,
    },
    /// More regions than residency rules can distinguish.
    #[error(
        "residency rules tell 63 regions apart, and there are {regions}: leave rules or regions out"
    )]
    Ruled {
        /// Number of regions.
        regions: usize,
    },
    /// More replicas than a gateway can number.
    #[error("a gateway numbers {MOST_REPLICA_IDS} replicas, and there are {replicas}: use fewer")]
    Replicas {
        /// Number of replicas, with those that an autoscaler may add.
        replicas: usize,
    },
    /// Nothing to send or nowhere to send it.
    #[error("the scenario has no {0}: add at least one")]
    Empty(&'static str),
}

/// Refuses a scenario that refers to missing items, or has nothing to do.
pub(crate) fn validate(scenario: &Scenario) -> Result<(), Impossible> {
    let regions = scenario.regions.len();
    if regions == 0 {
        return Err(Impossible::Empty("regions"));
    }
    if scenario.replicas.is_empty() {
        return Err(Impossible::Empty("replicas"));
    }
    let added = scenario.autoscaler.as_ref().map_or(0, |scaler| scaler.max as usize * regions);
    let replicas = scenario.replicas.len() + added;
    if replicas > usize::from(MOST_REPLICA_IDS) {
        return Err(Impossible::Replicas { replicas });
    }
    let matrix = &scenario.wan.rtt_ms;
    let odd = matrix.iter().map(Vec::len).chain([matrix.len()]).find(|n| *n != regions);
    if let Some(rows) = odd {
        return Err(Impossible::Matrix { rows, regions });
    }
    let there = |what, region| match region < regions {
        true => Ok(()),
        false => Err(Impossible::Region { what, region, regions }),
    };
    if regions > MOST_PLACES && scenario.loads.iter().any(|load| load.may_run_in.is_some()) {
        return Err(Impossible::Ruled { regions });
    }
    for replica in &scenario.replicas {
        there("a replica", replica.region)?;
    }
    validate_fabric(scenario)?;
    for load in &scenario.loads {
        there("a load", load.region)?;
        for region in load.may_run_in.iter().flatten() {
            there("a residency rule", *region)?;
        }
    }
    if let Topology::Central { region } = scenario.system.topology {
        there("the central gateway", region)?;
    }
    Ok(())
}

/// Refuses cards and uplinks that carry nothing, leases that are renewed without a pause, and racks
/// that are not there.
fn validate_fabric(scenario: &Scenario) -> Result<(), Impossible> {
    let carries = |what, at, gbps: f64| match gbps > 0.0 && gbps.is_finite() {
        true => Ok(()),
        false => Err(Impossible::Rate { what, at, gbps }),
    };
    let racks = scenario.racks.len();
    for (replica, hardware) in scenario.replicas.iter().enumerate() {
        carries("the card of replica", replica, hardware.transfer.gbps)?;
        let lease = hardware.transfer.lease;
        if lease < LEAST_LEASE {
            return Err(Impossible::Lease { replica, lease });
        }
        if let Some(rack) = hardware.transfer.rack.filter(|rack| *rack >= racks) {
            return Err(Impossible::Rack { replica, rack, racks });
        }
    }
    let mut uplinks = scenario.racks.iter().enumerate();
    uplinks.try_for_each(|(at, rack)| carries("the uplink of rack", at, rack.gbps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm;

    // The shortest lease is accepted, and a shorter one is refused with the replica and the remedy.
    #[test]
    fn leases_that_are_too_short() {
        let mut scenario = swarm::paired(1);
        let lease = |ms| Duration::from_millis(ms);
        scenario.replicas[0].transfer.lease = lease(6);
        assert!(validate(&scenario).is_ok());
        scenario.replicas[0].transfer.lease = lease(5);
        let why = validate(&scenario).expect_err("is refused").to_string();
        assert_eq!(why, "replica 0 holds KV for 5ms: use a lease of 6 ms or more");
    }
}
