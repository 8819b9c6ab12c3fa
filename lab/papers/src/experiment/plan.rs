//! An experiment with all names resolved and checked, ready to run.

mod check;

use std::sync::Arc;

use anyhow::bail;
use meridian_routing::policy::{Params, Spec as PolicySpec};
use meridian_tools::generator;
use meridian_tools::rule::every_policy;
use meridian_workload::Generator;

use super::catalogue::{self, World, catalogue};
use super::spec::{Fleet, Load, Measure, Regions, Smaller, Spec, System, Workload};
use super::trace::Recorded;

/// The parts of an experiment that a simulation needs.
#[derive(Clone)]
pub struct Plan {
    /// The regions of clients and replicas.
    pub regions: Regions,
    /// Fleets.
    pub fleets: Vec<Fleet>,
    /// Workloads, each with the source of requests of each load.
    pub workloads: Vec<(Workload, Vec<Feed>)>,
    /// Systems, each with its policy.
    pub systems: Vec<(System, &'static PolicySpec, Params)>,
    /// The measured part of a run.
    pub measure: Measure,
}

impl Plan {
    /// The measured part of a run, by workload.
    #[must_use]
    pub fn windows(&self) -> Vec<(String, Measure)> {
        let own = |w: &Workload| (w.name.clone(), w.measure.unwrap_or(self.measure));
        self.workloads.iter().map(|(workload, _)| own(workload)).collect()
    }
}

/// The source of a load's requests.
#[derive(Clone)]
pub enum Feed {
    /// A generator.
    Generator(Arc<dyn Generator>),
    /// A trace.
    Trace(Arc<Recorded>),
}

impl Feed {
    /// The source for a load; errors name the field.
    fn of(load: &Load, measure: Measure) -> Result<Feed, Vec<String>> {
        match (&load.generator, &load.trace) {
            (Some(named), None) => generator::build(named).map(Feed::Generator),
            (None, Some(trace)) => Recorded::read(trace, measure)
                .map(|recorded| Feed::Trace(Arc::new(recorded)))
                .map_err(|e| vec![format!("trace.{e:#}")]),
            _ => Err(vec!["generator: give either a generator or a trace".to_owned()]),
        }
    }

    /// The generator, if it is one.
    #[must_use]
    pub fn generator(&self) -> Option<&Arc<dyn Generator>> {
        match self {
            Feed::Generator(generator) => Some(generator),
            Feed::Trace(_) => None,
        }
    }
}

/// One combination of a workload, a fleet and a system, as indices into the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The workload.
    pub workload: usize,
    /// The fleet.
    pub fleet: usize,
    /// The system.
    pub system: usize,
}

impl Plan {
    /// Resolves and checks all names in `spec`; `quick` makes it small.
    ///
    /// # Errors
    ///
    /// Everything that is wrong, each with its field, value and remedy.
    pub fn new(spec: &Spec, quick: bool) -> anyhow::Result<Plan> {
        every_policy();
        let mut problems = Vec::new();
        let Some(plan) = Plan::resolve(spec, &mut problems) else { bail!(problems.join("\n")) };
        problems.extend(check::plan(&plan));
        problems.extend(check::spec(spec, &plan));
        if !problems.is_empty() {
            bail!(problems.join("\n"));
        }
        Ok(if quick { plan.smaller(&spec.quick) } else { plan })
    }

    /// `None` if a required value is missing; errors are added to `problems`.
    fn resolve(spec: &Spec, problems: &mut Vec<String>) -> Option<Plan> {
        let mut note = |problem: String| problems.push(problem);
        let world = spec.world.map(catalogue::world);
        let known = world.map_or_else(|| catalogue().clone(), World::names);
        let spec = &world.map_or_else(|| spec.clone(), |world| world.within(spec));
        let Some(regions) = &spec.regions else {
            note("regions: missing; name a set, as in `regions: skywalker`".to_owned());
            return None;
        };
        let regions = regions.resolve(&known.regions, |r| &r.name, "regions");
        let regions = regions.map_err(|e| note(e.to_string())).ok();
        let fleets = all(&spec.fleets, "fleets", &mut note, |one, field| {
            one.resolve(&known.fleets, |f| &f.name, field).map_err(|e| vec![e.to_string()])
        });
        let workloads = all(&spec.workloads, "workloads", &mut note, |one, field| {
            let workload = one
                .resolve(&known.workloads, |w| &w.name, field)
                .map_err(|e| vec![e.to_string()])?;
            let name = format!("{field} ({})", workload.name);
            let mut feeds = Vec::new();
            let mut problems = Vec::new();
            for (i, load) in workload.loads.iter().enumerate() {
                match Feed::of(load, workload.measure.unwrap_or(spec.measure)) {
                    Ok(feed) => feeds.push(feed),
                    Err(bad) => {
                        problems.extend(bad.iter().map(|e| format!("{name}.loads[{i}].{e}")));
                    }
                }
            }
            if problems.is_empty() { Ok((workload, feeds)) } else { Err(problems) }
        });
        let systems = all(&spec.systems, "systems", &mut note, |one, field| {
            let system =
                one.resolve(&known.systems, |s| &s.name, field).map_err(|e| vec![e.to_string()])?;
            let name = format!("{field} ({})", system.name);
            let resolved = meridian_config::resolve(&system.policy);
            let (policy, params) = resolved.map_err(|errors| {
                errors.iter().map(|e| format!("{name}.{e}")).collect::<Vec<_>>()
            })?;
            Ok((system, policy, params))
        });
        let (regions, fleets, workloads, systems) = (regions?, fleets?, workloads?, systems?);
        let workloads =
            workloads.into_iter().flat_map(|one| at_levels(one, &spec.levels)).collect();
        Some(Plan { regions, fleets, workloads, systems, measure: spec.measure })
    }

    /// Every cell, in the order of the tables: by workload, then fleet, then system.
    #[must_use]
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (workload, (w, _)) in self.workloads.iter().enumerate() {
            let runs = |system: &System| w.systems.is_empty() || w.systems.contains(&system.name);
            for (fleet, f) in self.fleets.iter().enumerate() {
                if w.fleets.is_empty() || w.fleets.contains(&f.name) {
                    let systems = (0..self.systems.len()).filter(|at| runs(&self.systems[*at].0));
                    cells.extend(systems.map(|system| Cell { workload, fleet, system }));
                }
            }
        }
        cells
    }

    /// The workload's name of a cell.
    #[must_use]
    pub fn workload(&self, cell: Cell) -> &str {
        &self.workloads[cell.workload].0.name
    }

    /// The fleet's name of a cell.
    #[must_use]
    pub fn fleet(&self, cell: Cell) -> &str {
        &self.fleets[cell.fleet].name
    }

    /// The system's name of a cell.
    #[must_use]
    pub fn system(&self, cell: Cell) -> &str {
        &self.systems[cell.system].0.name
    }

    /// A small variant.
    pub(super) fn smaller(mut self, quick: &Smaller) -> Plan {
        let stays = |names: &[String], name: &String| names.is_empty() || names.contains(name);
        self.fleets.retain(|f| stays(&quick.fleets, &f.name));
        self.workloads.retain(|w| stays(&quick.workloads, &w.0.name));
        self.systems.retain(|s| stays(&quick.systems, &s.0.name));
        let whole = |n: &mut u32| {
            if *n > 0 {
                *n = ((f64::from(*n) * quick.share).round() as u32).max(1);
            }
        };
        for group in self.fleets.iter_mut().flat_map(|f| &mut f.groups) {
            group.count.iter_mut().for_each(whole);
        }
        for fleet in &mut self.fleets {
            let replicas = fleet.replicas();
            fleet.degraded.retain(|degraded| degraded.replica < replicas);
        }
        for load in self.workloads.iter_mut().flat_map(|w| &mut w.0.loads) {
            load.clients.iter_mut().flatten().for_each(whole);
            load.rate.iter_mut().flatten().for_each(|rate| *rate *= quick.share);
            load.capacity.iter_mut().for_each(|rate| *rate *= quick.share);
            load.trace.iter_mut().for_each(|trace| trace.speed *= quick.share);
        }
        self.measure = quick.measure;
        self.workloads.iter_mut().for_each(|w| w.0.measure = None);
        self
    }
}

/// A workload once for each level; alone if it has no capacity, or if there are no levels.
fn at_levels(
    (workload, feeds): (Workload, Vec<Feed>),
    levels: &[f64],
) -> Vec<(Workload, Vec<Feed>)> {
    if levels.is_empty() || workload.loads.iter().all(|load| load.capacity.is_none()) {
        return vec![(workload, feeds)];
    }
    levels.iter().map(|level| (workload.at(*level), feeds.clone())).collect()
}

/// Resolves a whole list; `None` when any of it failed.
fn all<T, R>(
    list: &[T],
    field: &str,
    note: &mut impl FnMut(String),
    resolve: impl Fn(&T, &str) -> Result<R, Vec<String>>,
) -> Option<Vec<R>> {
    let mut good = Vec::new();
    for (i, one) in list.iter().enumerate() {
        match resolve(one, &format!("{field}[{i}]")) {
            Ok(resolved) => good.push(resolved),
            Err(problems) => problems.into_iter().for_each(&mut *note),
        }
    }
    (good.len() == list.len()).then_some(good)
}

#[cfg(test)]
mod tests;
