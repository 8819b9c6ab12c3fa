//! A grid of cases: every workload, with every rate of the cards and every granularity of KV.

use anyhow::Context as _;
use meridian_tools::cluster::file::{KvLayers, Rate};

use crate::experiment::spec::{Case, FlowGrid, FlowLoad, FlowSweep, FlowSystem};

/// The settings of a case on a grid.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spot {
    /// The workload's name.
    pub(super) case: String,
    /// The workload, with its rate.
    pub(super) workload: String,
    /// A card's rate.
    pub(super) card: Rate,
    /// Layers whose KV is one flow.
    pub(super) layers: KvLayers,
}

/// The names of [`Spot::columns`].
pub(super) const COLUMNS: [&str; 3] = ["workload", "card, Gb/s", "layers per KV flow"];

impl Spot {
    pub(super) fn columns(&self) -> [String; 3] {
        [self.workload.clone(), self.gigabits().to_string(), self.layers.to_string()]
    }

    /// A card's rate in Gb/s.
    pub(super) fn gigabits(&self) -> f64 {
        self.card.0 / 125e6
    }
}

/// Cases of a grid as a sweep, with one rate each.
pub(super) struct Part {
    /// By case.
    pub(super) spots: Vec<Spot>,
    /// The cases and their systems.
    pub(super) sweep: FlowSweep,
}

impl Part {
    /// Every workload on the whole grid.
    pub(super) fn whole(spec: &FlowLoad) -> Part {
        Part::new(spec, spec.cases.iter(), &spec.grid, &spec.systems)
    }

    /// The part with other ways to enforce and coordinate.
    ///
    /// # Errors
    /// If it names an unknown workload.
    pub(super) fn control(spec: &FlowLoad) -> anyhow::Result<Part> {
        let control = &spec.control;
        let case = |name: &String| {
            let found = spec.cases.iter().find(|case| case.name == *name);
            found.with_context(|| format!("flow_load.control.cases: no case is called `{name}`"))
        };
        let cases = control.cases.iter().map(case).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Part::new(spec, cases.into_iter(), &control.grid, &control.systems))
    }

    fn new<'a>(
        spec: &FlowLoad,
        cases: impl Iterator<Item = &'a Case>,
        grid: &FlowGrid,
        systems: &[FlowSystem],
    ) -> Part {
        let mut part = Part {
            spots: Vec::new(),
            sweep: FlowSweep {
                cluster: spec.cluster.clone(),
                cases: Vec::new(),
                systems: systems.to_vec(),
                published: Vec::new(),
                quick_requests: spec.quick_requests,
            },
        };
        for case in cases {
            for rate in &case.rates {
                let settings = grid
                    .cards
                    .iter()
                    .flat_map(|card| grid.kv_layers.iter().map(move |layers| (*card, *layers)));
                for (card, layers) in settings {
                    let workload = format!("{} at {rate}", case.name);
                    part.spots.push(Spot { case: case.name.clone(), workload, card, layers });
                    part.sweep.cases.push(set(case, *rate, card, layers));
                }
            }
        }
        part
    }
}

/// The case with these settings.
fn set(case: &Case, rate: f64, card: Rate, layers: KvLayers) -> Case {
    let mut set = Case { rates: vec![rate], card: Some(card), ..case.clone() };
    set.name = format!("{}, cards of {card}, KV by {layers}", case.name);
    set.models.iter_mut().for_each(|served| served.kv_layers = layers);
    set
}
