use super::*;
use crate::import::TopologySpec;
use crate::model::Subject;
use crate::search::plan;
use crate::task::{Lengths, Slo};
use crate::topology::Topology;

fn topology(servers: &str) -> Topology {
    let yaml = format!("version: 1\nunits:\n- servers:\n{servers}");
    TopologySpec::read(&yaml).unwrap().build().unwrap()
}

const H100: &str =
    "  - {count: 2, gpu: h100, gpus: 8, nvlink: 450GB/s, cards: 8, card_rate: 400Gb/s}\n";

fn task<'a>(topology: &'a Topology, subject: &'a Subject, tpot: f64) -> Task<'a> {
    let slo = Slo { ttft: 2.0, tpot, attainment: 0.9 };
    let prompt = Lengths { mean: 2000.0, cv: 1.0 };
    Task::new(topology, subject, (prompt, Lengths { mean: 300.0, cv: 1.0 }), slo)
}

fn all(topology: &Topology) -> Vec<GpuId> {
    topology.all_gpus().collect()
}

// Looser objectives never lower the goodput, and neither do more GPUs.
#[test]
fn more_is_not_less() {
    let (topology, subject) = (topology(H100), Subject::named("llama-3.1-70b").unwrap());
    let of = |tpot, gpus: &[GpuId]| {
        aggregated(&task(&topology, &subject, tpot), gpus).map_or(0.0, |one| one.goodput)
    };
    let gpus = all(&topology);
    let rates: Vec<f64> = [0.02, 0.04, 0.08, 0.2].map(|tpot| of(tpot, &gpus)).to_vec();
    assert!(rates.is_sorted() && rates[3] > rates[1] && rates[1] > 0.0, "{rates:?}");
    let sizes: Vec<f64> = [4, 8, 12, 16].map(|count| of(0.08, &gpus[..count])).to_vec();
    assert!(sizes.is_sorted() && sizes[3] > 1.9 * sizes[1], "{sizes:?}");
}

// Instances share no GPU, and use only those that they may.
#[test]
fn every_gpu_is_used_once() {
    let (topology, subject) = (topology(H100), Subject::named("llama-3.1-70b").unwrap());
    let allowed = [0, 1, 2, 3, 8, 9, 10, 11].map(GpuId);
    let found = aggregated(&task(&topology, &subject, 0.1), &allowed).unwrap();
    let mut gpus: Vec<GpuId> = found.instances.iter().flat_map(|one| one.gpus()).collect();
    gpus.sort_unstable();
    gpus.dedup();
    assert_eq!(gpus.len() as u32, found.gpus());
    assert!(gpus.iter().all(|gpu| allowed.contains(gpu)), "{gpus:?}");
}

// With a rate, the fewest GPUs that serve it; with a rate beyond all of them, as much as they can.
#[test]
fn a_rate_takes_no_more_than_it_needs() {
    let (topology, subject) = (topology(H100), Subject::named("llama-3.1-70b").unwrap());
    let task = task(&topology, &subject, 0.1);
    let most = aggregated(&task, &all(&topology)).unwrap();
    let at = |share: f64| {
        let task = Task { rate: Some(share * most.goodput), ..task.clone() };
        aggregated(&task, &all(&topology)).unwrap()
    };
    let (some, too_much) = (at(0.4), at(3.0));
    assert!(some.goodput >= 0.4 * most.goodput && some.gpus() < most.gpus(), "{}", some.gpus());
    assert!((too_much.goodput / most.goodput - 1.0).abs() < 1e-6);
}

// In a topology of many equal cells each does as well as one alone.
#[test]
fn equal_cells_are_planned_once() {
    let one = topology(&H100.replace("count: 2", "count: 1"));
    let many = topology(&H100.replace("count: 2", "count: 12"));
    let subject = Subject::named("llama-3.1-70b").unwrap();
    let goodput = |topology: &Topology| {
        aggregated(&task(topology, &subject, 0.1), &all(topology)).unwrap().goodput
    };
    assert!((goodput(&many) / (12.0 * goodput(&one)) - 1.0).abs() < 1e-6);
}

// The sentence names the better one, the difference and a reason; an objective that only separate
// instances meet favours them.
#[test]
fn the_verdict_names_the_better_one() {
    let (topology, subject) = (topology(H100), Subject::named("llama-3.1-70b").unwrap());
    let strict = task(&topology, &subject, 0.03);
    let plans = plan(&strict).unwrap();
    let other = beside(&strict, &plans[0]);
    let text = verdict(&strict, &plans[0], other.as_ref());
    assert!(text.starts_with("separate instances serve") && text.contains("more: "), "{text}");
    let none = verdict(&strict, &plans[0], None);
    assert!(none.contains("serves nothing"), "{none}");
}
