//! Definitions that experiments share: by name (`experiments/common.yaml`), the world in which
//! policies are compared (`experiments/comparison.yaml`), and policies as a sweep tuned them
//! (`experiments/tuned.yaml`).

use std::sync::OnceLock;

use serde::Deserialize;

use super::spec::{Fleet, Ref, Regions, Spec, System, Tuned, Workload, read};

/// Everything that can be referenced by name.
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

/// The built-in catalogue.
///
/// # Panics
///
/// Never in a program that passed its tests: the file is part of the program.
#[must_use]
pub fn catalogue() -> &'static Catalogue {
    static READ: OnceLock<Catalogue> = OnceLock::new();
    READ.get_or_init(|| {
        read("common", include_str!("../../../../experiments/common.yaml"))
            .expect("the catalogue is part of the program and a test reads it")
    })
}

/// The world in which policies are compared.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct World {
    /// The regions of clients and replicas.
    pub regions: Ref<Regions>,
    /// Fleets.
    pub fleets: Vec<Ref<Fleet>>,
    /// Workloads.
    pub workloads: Vec<Ref<Workload>>,
}

impl World {
    /// `spec` in this world; its own settings take precedence.
    #[must_use]
    pub fn within(&self, spec: &Spec) -> Spec {
        let mut spec = spec.clone();
        spec.regions.get_or_insert_with(|| self.regions.clone());
        if spec.fleets.is_empty() {
            spec.fleets.clone_from(&self.fleets);
        }
        if spec.workloads.is_empty() {
            spec.workloads.clone_from(&self.workloads);
        }
        spec
    }
}

/// The built-in world.
///
/// # Panics
///
/// Never in a program that passed its tests: the file is part of the program.
#[must_use]
pub fn comparison() -> &'static World {
    static READ: OnceLock<World> = OnceLock::new();
    READ.get_or_init(|| {
        read("comparison", include_str!("../../../../experiments/comparison.yaml"))
            .expect("the world is part of the program and a test reads it")
    })
}

/// Policies with the parameters that a sweep chose.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweeps {
    /// A line for each policy and arrangement.
    pub tuned: Vec<Tuned>,
}

/// The built-in tuned policies.
///
/// # Panics
///
/// Never in a program that passed its tests: the file is part of the program.
#[must_use]
pub fn tuned() -> &'static [Tuned] {
    static READ: OnceLock<Sweeps> = OnceLock::new();
    let read = || {
        read("tuned", include_str!("../../../../experiments/tuned.yaml"))
            .expect("the sweep's result is part of the program and a test reads it")
    };
    &READ.get_or_init(read).tuned
}
