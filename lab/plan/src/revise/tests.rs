use super::*;
use crate::import::TopologySpec;
use crate::model::Subject;
use crate::task::{Lengths, Slo};
use crate::topology::Topology;

fn topology(count: u32) -> Topology {
    let yaml = format!(
        "version: 1\nunits:\n- servers:\n  - {{count: {count}, gpu: h100, gpus: 8, nvlink: 450GB/s, \
         cards: 8, card_rate: 400Gb/s}}\n"
    );
    TopologySpec::read(&yaml).unwrap().build().unwrap()
}

fn task<'a>(topology: &'a Topology, subject: &'a Subject, prompt: f64, output: f64) -> Task<'a> {
    let slo = Slo { ttft: 2.0, tpot: 0.05, attainment: 0.9 };
    let lengths = |mean| Lengths { mean, cv: 0.8 };
    Task::new(topology, subject, (lengths(prompt), lengths(output)), slo)
}

/// The best plan for a rate, as it runs.
fn running(task: &Task<'_>, rate: f64) -> Vec<Fleet> {
    let plan = plan(&Task { rate: Some(rate), ..task.clone() }).unwrap().swap_remove(0);
    plan.cells.into_iter().map(|cell| cell.fleet).collect()
}

fn kept(revised: &Revised) -> usize {
    revised.changes.iter().filter(|one| matches!(one, Change::Kept(..))).count()
}

// A plan that still serves its rate stays as it is, and serves what it did.
#[test]
fn what_still_works_stays() {
    let (topology, subject) = (topology(2), Subject::named("llama-3.1-8b").unwrap());
    let task = task(&topology, &subject, 2000.0, 300.0);
    let fleets = running(&task, 20.0);
    let revised = revise(&task, &fleets, &[], 20.0).unwrap();
    assert_eq!(kept(&revised), revised.changes.len());
    assert!(revised.before >= 20.0 * 0.9999 && revised.before == revised.remaining);
    assert!((revised.plan.goodput() / revised.before - 1.0).abs() < 1e-9);
}

// With longer prompts the plan no longer serves the rate; the new one does, keeps every running
// instance and adds to them.
#[test]
fn longer_prompts_need_more() {
    let (topology, subject) = (topology(2), Subject::named("llama-3.1-8b").unwrap());
    let old = task(&topology, &subject, 2000.0, 300.0);
    let fleets = running(&old, 20.0);
    let new = task(&topology, &subject, 4000.0, 300.0);
    let revised = revise(&new, &fleets, &[], 20.0).unwrap();
    let instances: usize = fleets.iter().map(|one| one.all().count()).sum();
    assert!(revised.before < 20.0 && revised.plan.goodput() >= 20.0, "{revised:?}");
    assert_eq!(kept(&revised), instances);
    assert!(revised.changes.len() > instances);
}

// If no GPU is free, instances change: replies three times as long turn prefill into decode, or cut
// GPUs again, and more is served than before.
#[test]
fn instances_change_where_none_is_free() {
    let (topology, subject) = (topology(1), Subject::named("llama-3.1-8b").unwrap());
    let old = task(&topology, &subject, 4000.0, 100.0);
    let plan = plan(&old).unwrap().swap_remove(0);
    let fleets: Vec<Fleet> = plan.cells.into_iter().map(|cell| cell.fleet).collect();
    let new = task(&topology, &subject, 1000.0, 600.0);
    let revised = revise(&new, &fleets, &[], 1e3).unwrap();
    assert!(revised.plan.goodput() > 1.05 * revised.before, "{revised:?}");
    assert!(revised.changes.iter().any(|one| !matches!(one, Change::Kept(..))));
}

// A lost instance's GPUs are not used again; the others stay, and a free place takes over. With two
// thirds of the instances of a phase lost, what remains is said.
#[test]
fn a_lost_instance_is_replaced_elsewhere() {
    let (topology, subject) = (topology(2), Subject::named("llama-3.1-8b").unwrap());
    let task = task(&topology, &subject, 2000.0, 300.0);
    let fleets = running(&task, 20.0);
    let lost = fleets[0].prefill[0].instance.clone();
    let revised = revise(&task, &fleets, &["prefill-0".to_owned()], 20.0).unwrap();
    assert!(revised.remaining < revised.before && revised.plan.goodput() >= 20.0, "{revised:?}");
    assert!(revised.changes.contains(&Change::Lost("prefill-0".to_owned())));
    let gone: Vec<GpuId> = lost.gpus().collect();
    let used: Vec<GpuId> = revised.plan.instances().flat_map(|one| one.instance.gpus()).collect();
    assert!(gone.iter().all(|gpu| !used.contains(gpu)));
    let mut distinct = used.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), used.len(), "a GPU has one instance");
}

// Names that the plan does not have, and rates that are none, are refused with a remedy.
#[test]
fn unknown_instances_are_refused() {
    let (topology, subject) = (topology(1), Subject::named("llama-3.1-8b").unwrap());
    let task = task(&topology, &subject, 2000.0, 300.0);
    let fleets = running(&task, 5.0);
    let error = revise(&task, &fleets, &["decode-9".to_owned()], 5.0).unwrap_err().to_string();
    assert!(error.starts_with("without: decode-9; the plan has prefill-0"), "{error}");
    assert!(revise(&task, &fleets, &[], f64::NAN).is_err());
}
