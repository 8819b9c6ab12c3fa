//! Definitions that experiments share: by name (`experiments/common.yaml`), the worlds in which
//! policies are compared (`experiments/comparison.yaml`, `experiments/hard.yaml`), and policies as
//! a sweep tuned them (`experiments/tuned.yaml`).

use std::sync::OnceLock;

use serde::Deserialize;

use super::spec::{Fleet, KnownWorld, Ref, Regions, Spec, System, Tuned, Workload, read};

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

/// A world in which policies are compared.
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

    /// Everything that an experiment in this world can reference by name: the world's own fleets
    /// and workloads first, then those of the catalogue.
    #[must_use]
    pub fn names(&self) -> Catalogue {
        let mut names = catalogue().clone();
        names.fleets = own(&self.fleets).chain(names.fleets).collect();
        names.workloads = own(&self.workloads).chain(names.workloads).collect();
        names
    }
}

fn own<T: Clone>(list: &[Ref<T>]) -> impl Iterator<Item = T> {
    list.iter().filter_map(|one| match one {
        Ref::Own(own) => Some(own.clone()),
        Ref::Named(_) => None,
    })
}

/// A built-in world.
///
/// # Panics
///
/// Never in a program that passed its tests: the files are part of the program.
#[must_use]
pub fn world(known: KnownWorld) -> &'static World {
    static COMPARISON: OnceLock<World> = OnceLock::new();
    static HARD: OnceLock<World> = OnceLock::new();
    let (world, name, yaml) = match known {
        KnownWorld::Comparison => {
            (&COMPARISON, "comparison", include_str!("../../../../experiments/comparison.yaml"))
        }
        KnownWorld::Hard => (&HARD, "hard", include_str!("../../../../experiments/hard.yaml")),
    };
    world.get_or_init(|| {
        read(name, yaml).expect("the world is part of the program and a test reads it")
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
