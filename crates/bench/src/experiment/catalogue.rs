//! What experiments share by name: `experiments/common.yaml`.

use std::sync::OnceLock;

use serde::Deserialize;

use super::spec::{Fleet, Regions, System, Workload, read};

/// Everything that has a name.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    /// Sets of regions.
    pub regions: Vec<Regions>,
    /// Fleets.
    pub fleets: Vec<Fleet>,
    /// Workloads.
    pub workloads: Vec<Workload>,
    /// Systems.
    pub systems: Vec<System>,
}

/// The catalogue that this program carries.
///
/// # Panics
/// Never in a program that passed its tests: the file is part of the program.
#[must_use]
pub fn catalogue() -> &'static Catalogue {
    static READ: OnceLock<Catalogue> = OnceLock::new();
    READ.get_or_init(|| {
        read("common", include_str!("../../../../experiments/common.yaml"))
            .expect("the catalogue is part of the program and a test reads it")
    })
}
