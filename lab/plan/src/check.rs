//! Checks a plan against a topology and reports all errors at once.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::collective::Algorithm;
use crate::document::{CellFile, InstanceFile, PLAN_VERSION, PlanFile};
use crate::fleet::Fleet;
use crate::instance::{Instance, Phase, Rated, Unfit};
use crate::model::Subject;
use crate::problem::Problems;
use crate::task::Task;
use crate::topology::{GpuId, Topology};
use crate::units::Size;

/// A plan's claims may exceed the model's values by this much.
const TOLERANCE: f64 = 0.01;

/// The task of a plan file.
#[must_use]
pub fn task_of<'a>(file: &PlanFile, topology: &'a Topology, subject: &'a Subject) -> Task<'a> {
    let (prompt, output) = (file.prompt.lengths(), file.output.lengths());
    Task::new(topology, subject, (prompt, output), file.slo())
}

/// Checks a plan; returns the fleets of its cells if it is valid.
///
/// # Errors
///
/// All of them at once.
pub fn check(
    file: &PlanFile,
    topology: &Topology,
    subject: &Subject,
) -> Result<Vec<Fleet>, Problems> {
    let task = task_of(file, topology, subject);
    let mut found = Problems(Vec::new());
    let remedy = format!("use {PLAN_VERSION}");
    found.unless(file.version == PLAN_VERSION, "version", file.version, remedy);
    let remedy = format!(
        "the topology given is {}; give the plan's own, or change the name here if the servers are the \
         same",
        topology.name
    );
    found.unless(file.topology == topology.name, "topology", &file.topology, remedy);
    if let Err(problems) = task.check() {
        found.0.extend(problems.0);
    }
    found.unless(!file.cells.is_empty(), "cells", "none", "give at least one");
    let mut taken = BTreeMap::new();
    let mut fleets = Vec::new();
    for (at, cell) in file.cells.iter().enumerate() {
        fleets.push(check_cell(&task, cell, &format!("cells[{at}]"), &mut taken, &mut found));
    }
    let sum: f64 = file.cells.iter().map(|cell| cell.goodput).sum();
    let remedy = format!("its cells claim {sum:.4} together; use that");
    found.unless(file.goodput <= sum * (1.0 + TOLERANCE), "goodput", file.goodput, remedy);
    found.or(fleets)
}

fn check_cell(
    task: &Task<'_>,
    cell: &CellFile,
    field: &str,
    taken: &mut BTreeMap<GpuId, String>,
    found: &mut Problems,
) -> Fleet {
    let mut fleet = Fleet::default();
    let before = found.0.len();
    for (nth, instance) in cell.instances.iter().enumerate() {
        let field = format!("{field}.instances[{nth}]");
        let Some(rated) = check_instance(task, instance, &field, taken, found) else { continue };
        match rated.instance.phase {
            Phase::Prefill => fleet.prefill.push(Rc::new(rated)),
            Phase::Decode => fleet.decode.push(Rc::new(rated)),
        }
    }
    if found.0.len() > before {
        return fleet;
    }
    for (name, instances) in [("prefill", &fleet.prefill), ("decode", &fleet.decode)] {
        let remedy = "a cell needs both phases; add one, or move its instances to another cell";
        let what = format!("no {name}");
        found.unless(!instances.is_empty(), format!("{field}.instances"), what, remedy);
    }
    if found.0.len() == before {
        let goodput = fleet.judged(task).map_or(0.0, |verdict| verdict.goodput);
        let remedy =
            format!("it serves {goodput:.4} within the objectives; expect that, or give it more");
        let fits = cell.goodput <= goodput * (1.0 + TOLERANCE);
        found.unless(fits, format!("{field}.goodput"), cell.goodput, remedy);
    }
    check_rates(cell, field, found);
    fleet
}

/// The requests that the instances of a phase receive are at most those of the cell.
fn check_rates(cell: &CellFile, field: &str, found: &mut Problems) {
    for (nth, instance) in cell.instances.iter().enumerate() {
        let field = format!("{field}.instances[{nth}].rate");
        let remedy = "give the requests a second that it receives, 0 or more";
        found.unless(
            instance.rate >= 0.0 && instance.rate.is_finite(),
            field,
            instance.rate,
            remedy,
        );
    }
    for (name, phase) in [("prefill", Phase::Prefill), ("decode", Phase::Decode)] {
        let own = cell.instances.iter().filter(|one| one.phase.phase() == phase);
        let sum: f64 = own.map(|one| one.rate).sum();
        let remedy =
            format!("the cell serves {:.4}; share that among its {name} instances", cell.goodput);
        let fits = sum.is_nan() || sum <= cell.goodput * (1.0 + TOLERANCE);
        found.unless(
            fits,
            format!("{field}.instances"),
            format!("{name} rates of {sum:.4}"),
            remedy,
        );
    }
}

fn check_instance(
    task: &Task<'_>,
    file: &InstanceFile,
    field: &str,
    taken: &mut BTreeMap<GpuId, String>,
    found: &mut Problems,
) -> Option<Rated> {
    let before = found.0.len();
    let model = &task.subject.shape;
    let heads = file.tp > 0 && (file.ep || model.heads.is_multiple_of(file.tp));
    let remedy = format!("it must divide the model's {} heads", model.heads);
    found.unless(heads, format!("{field}.tp"), file.tp, remedy);
    let shared = model.experts.is_some_and(|one| one.count.is_multiple_of(file.tp.max(1)));
    let remedy =
        "only the one stage of a model whose experts tp divides can share them; leave it out";
    found.unless(!file.ep || (shared && file.pp == 1), format!("{field}.ep"), file.ep, remedy);
    let stages = file.pp > 0 && file.pp <= model.layers && file.stages.len() == file.pp as usize;
    let remedy = format!("give pp and as many stages, up to the model's {} layers", model.layers);
    let value = format!("{} for {} stages", file.pp, file.stages.len());
    found.unless(stages, format!("{field}.pp"), value, remedy);
    let mut members = Vec::new();
    for (nth, stage) in file.stages.iter().enumerate() {
        let field = format!("{field}.stages[{nth}]");
        let remedy = format!("a stage has tp GPUs, {}", file.tp);
        found.unless(
            stage.len() == file.tp as usize,
            field.clone(),
            format!("{} GPUs", stage.len()),
            remedy,
        );
        members.push(check_stage(task.topology, stage, &field, taken, found));
    }
    for row in file.collectives.iter().flatten() {
        let known = Algorithm::named(&row.algorithm).is_some();
        let remedy = "use ring, tree, relayed or in-network";
        found.unless(known, format!("{field}.collectives"), &row.algorithm, remedy);
    }
    if found.0.len() > before {
        return None;
    }
    let instance =
        Instance { phase: file.phase.phase(), parallel: file.parallel(), stages: members };
    match Rated::new(task, instance) {
        Ok(rated) => Some(rated),
        Err(unfit) => {
            let (value, remedy) = match unfit {
                Unfit::Memory(lacks) => (
                    format!("each GPU lacks {}", Size(lacks)),
                    "the weights and some KV must fit; use a larger tp or pp, or larger GPUs",
                ),
                Unfit::Disconnected => (
                    "its GPUs do not reach each other".to_owned(),
                    "use GPUs of one server or of servers with cards",
                ),
            };
            found.unless(false, field, value, remedy);
            None
        }
    }
}

fn check_stage(
    topology: &Topology,
    stage: &[String],
    field: &str,
    taken: &mut BTreeMap<GpuId, String>,
    found: &mut Problems,
) -> Vec<GpuId> {
    let mut gpus = Vec::new();
    for name in stage {
        let Some(gpu) = topology.gpu_named(name) else {
            let servers = topology.servers();
            let example = servers.first().map_or("server", |server| &server.name);
            let remedy = format!("the topology has no such GPU; its names are like {example}/0");
            found.unless(false, field, name, remedy);
            continue;
        };
        match taken.get(&gpu) {
            Some(other) => {
                let remedy = format!("{other} has it already; a GPU is in one stage");
                found.unless(false, field, name, remedy);
            }
            None => {
                taken.insert(gpu, field.to_owned());
            }
        }
        gpus.push(gpu);
    }
    gpus
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::TopologySpec;
    use crate::search::plan;
    use crate::task::{Lengths, Slo};

    fn planned() -> (Topology, Subject, PlanFile) {
        let yaml = include_str!("../topologies/heroserve-testbed.yaml");
        let topology = TopologySpec::read(yaml).unwrap().build().unwrap();
        let subject = Subject::named("opt-66b").unwrap();
        let lengths = Lengths { mean: 300.0, cv: 0.5 };
        let slo = Slo { ttft: 2.5, tpot: 0.15, attainment: 0.9 };
        let task = Task::new(&topology, &subject, (lengths, lengths), slo);
        let file = PlanFile::of(&task, &plan(&task).unwrap()[0]);
        (topology, subject, file)
    }

    // A plan that the planner writes reads back as the same plan, is valid, and claims the goodput
    // that the check finds.
    #[test]
    fn a_plan_checks_out() {
        let (topology, subject, file) = planned();
        let read = PlanFile::read(&file.print()).unwrap();
        assert_eq!(read, file);
        let fleets = check(&read, &topology, &subject).unwrap();
        let verdict = fleets[0].judged(&task_of(&read, &topology, &subject)).unwrap();
        assert!((verdict.goodput / file.goodput - 1.0).abs() < 1e-4);
    }

    // For a plan with many errors, all of them are reported.
    #[test]
    fn everything_wrong_comes_at_once() {
        let (topology, subject, mut file) = planned();
        file.version = 7;
        file.slo.attainment = 2.0;
        let first = file.cells[0].instances[0].stages[0][0].clone();
        file.cells[0].instances[1].stages[0][0] = first;
        file.cells[0].instances[1].tp = 5;
        file.cells[0].instances[0].pp += 1;
        file.cells[0].instances[0].stages[0][0] = "b200-9/0".to_owned();
        let text = check(&file, &topology, &subject).unwrap_err().to_string();
        for field in
            ["version: 7", "attainment: 2", ".tp: 5", ".pp: ", "b200-9/0", "a stage has tp"]
        {
            assert!(text.contains(field), "{field} in\n{text}");
        }
        let (topology, subject, mut file) = planned();
        let twin = file.cells[0].instances[0].clone();
        file.cells[0].instances.push(twin);
        let text = check(&file, &topology, &subject).unwrap_err().to_string();
        assert!(text.contains("cells[0].instances[0].stages[0] has it already"), "{text}");
    }

    // Rates that a cell does not have, and another topology, are refused by name.
    #[test]
    fn rates_and_the_topology_fit_the_plan() {
        let (topology, subject, file) = planned();
        let said = |change: fn(&mut PlanFile)| {
            let mut file = file.clone();
            change(&mut file);
            check(&file, &topology, &subject).unwrap_err().to_string()
        };
        let text = said(|file| file.topology = "elsewhere".to_owned());
        assert!(text.starts_with("topology: elsewhere; the topology given is heroserve"), "{text}");
        let text = said(|file| file.cells[0].instances[0].rate = -1.0);
        assert!(text.contains("cells[0].instances[0].rate: -1; give"), "{text}");
        let text = said(|file| file.cells[0].instances[0].rate += file.goodput);
        assert!(text.contains("cells[0].instances: prefill rates of"), "{text}");
    }

    // Too little memory, a missing phase and an excessive claim are found.
    #[test]
    fn what_it_cannot_do_is_said() {
        let (topology, subject, file) = planned();
        let alone = |mut file: PlanFile, phase| {
            file.cells[0].instances.retain(|one| one.phase == phase);
            check(&file, &topology, &subject).unwrap_err().to_string()
        };
        assert!(alone(file.clone(), crate::document::PhaseName::Prefill).contains("no decode"));
        let mut high = file.clone();
        high.cells[0].goodput *= 2.0;
        let text = check(&high, &topology, &subject).unwrap_err().to_string();
        assert!(text.contains("cells[0].goodput") && text.contains("it serves"), "{text}");
        let mut small = file;
        let one = &mut small.cells[0].instances[0];
        (one.tp, one.pp) = (1, 1);
        one.stages = vec![vec![one.stages[0][0].clone()]];
        let text = check(&small, &topology, &subject).unwrap_err().to_string();
        assert!(text.contains("each GPU lacks"), "{text}");
    }
}
