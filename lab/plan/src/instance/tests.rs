use super::*;
use crate::import::TopologySpec;
use crate::model::Subject;
use crate::task::{Lengths, Slo};
use crate::topology::Topology;

fn topology(servers: &str) -> Topology {
    let yaml = format!("version: 1\nunits:\n- servers:\n{servers}");
    TopologySpec::read(&yaml).unwrap().build().unwrap()
}

fn of(topology: &Topology, model: &str, phase: Phase, stages: &[&[u32]], tokens: f64) -> Rated {
    let subject = Subject::named(model).unwrap();
    let lengths = Lengths::equal(tokens);
    let slo = Slo { ttft: 10.0, tpot: 0.1, attainment: 0.9 };
    let task = Task::new(topology, &subject, (lengths, lengths), slo);
    let stages: Vec<Vec<GpuId>> =
        stages.iter().map(|stage| stage.iter().map(|gpu| GpuId(*gpu)).collect()).collect();
    let parallel = Parallel { tp: stages[0].len() as u32, pp: stages.len() as u32, ep: false };
    Rated::new(&task, Instance { phase, parallel, stages }).unwrap()
}

const A100: &str = "  - {gpu: a100, gpus: 8, nvlink: 300GB/s}\n";

// In one server a step is the engine's own, collectives included.
#[test]
fn one_server_is_the_engines_step() {
    let topology = topology(A100);
    let ours = of(&topology, "llama-3.1-8b", Phase::Prefill, &[&[0, 1, 2, 3]], 2000.0);
    let profile = meridian_engine::Profile::named("llama-3.1-8b", "a100", 4).unwrap();
    let mut work = meridian_engine::Work::default();
    work.prefill(0, 2000);
    assert!((ours.service / profile.terms.seconds(&work) - 1.0).abs() < 1e-6);
}

// Correction 5: two all-reduces a layer, in every layer, each of all tokens.
#[test]
fn correction_5_every_layer_synchronises_twice() {
    let topology = topology(A100);
    let rated = of(&topology, "llama-3.1-8b", Phase::Prefill, &[&[0, 1]], 2000.0);
    let each = crate::collective::best(&rated.groups[0], rated.message).unwrap();
    assert_eq!(rated.message, 2000.0 * 4096.0 * 2.0);
    let all = 2.0 * 32.0 * each.seconds(rated.message);
    assert!((rated.communication / all - 1.0).abs() < 1e-9);
}

// Correction 10: a pipeline raises the rate and not the speed of a token; the batch and the grown
// context count; a stage of two kinds is as slow as the slower.
#[test]
fn correction_10_pipelines_raise_throughput() {
    let whole = topology(A100);
    let rate = |phase, stages: &[&[u32]]| of(&whole, "llama-3.1-8b", phase, stages, 500.0);
    let (one, two) = (rate(Phase::Prefill, &[&[0]]), rate(Phase::Prefill, &[&[0], &[1]]));
    assert!(two.service > one.service, "a prompt still goes through all layers");
    assert!(two.rate > 1.6 * one.rate, "{} {}", two.rate, one.rate);
    let (one, two) = (rate(Phase::Decode, &[&[0]]), rate(Phase::Decode, &[&[0], &[1]]));
    assert!(two.least > one.least && one.service > one.least);
    assert!(one.batch > 10.0 && two.batch > one.batch * 0.99);
    let longer = of(&whole, "llama-3.1-8b", Phase::Decode, &[&[0]], 4000.0);
    assert!(longer.service / longer.batch > one.service / one.batch);
    let mixed = topology(
        "  - {gpu: a100, gpus: 1, cards: 1, card_rate: 100Gb/s}\n  - {gpu: v100, gpus: 2, cards: 1, card_rate: 100Gb/s}\n",
    );
    let fast = of(&whole, "llama-3.1-8b", Phase::Prefill, &[&[0, 1]], 500.0);
    let both = of(&mixed, "llama-3.1-8b", Phase::Prefill, &[&[0, 1]], 500.0);
    let slow = of(&mixed, "llama-3.1-8b", Phase::Prefill, &[&[1, 2]], 500.0);
    let compute = |rated: &Rated| rated.service - rated.communication;
    assert!((compute(&both) / compute(&slow) - 1.0).abs() < 1e-9);
    assert!(compute(&both) > 2.0 * compute(&fast));
}

// One GPU is busy in proportion to its load. With eight ranks and one prompt arriving per step,
// hardly any prompt is left over: a step follows unless none arrived, so they are busy for e steps,
// and idle for one. Two stages are empty if the first is idle and no prompt arrived for an
// interval.
#[test]
fn steps_follow_each_other() {
    let topology = topology(A100);
    let mut rated = of(&topology, "llama-3.1-8b", Phase::Prefill, &[&[0]], 500.0);
    let interval = rated.queue.interval;
    let mut busy = |tp, pp, ep, load: f64| {
        rated.instance.parallel = Parallel { tp, pp, ep };
        rated.busy(load / interval)
    };
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-5, "{a} {b}");
    near(busy(1, 1, false, 0.4), 0.4);
    near(busy(1, 1, false, 1.5), 1.0);
    near(busy(8, 1, true, 0.125), core::f64::consts::E / (1.0 + core::f64::consts::E));
    near(busy(1, 2, false, 0.4), 1.0 - 0.6 * libm::exp(-0.4));
}

// If the weights leave no memory, the lack is reported in bytes.
#[test]
fn weights_that_do_not_fit_are_refused() {
    let topology = topology("  - {gpu: l4, gpus: 1}\n");
    let subject = Subject::named("qwen3-32b").unwrap();
    let lengths = Lengths::equal(100.0);
    let slo = Slo { ttft: 1.0, tpot: 0.1, attainment: 0.9 };
    let task = Task::new(&topology, &subject, (lengths, lengths), slo);
    let parallel = Parallel { tp: 1, pp: 1, ep: false };
    let instance = Instance { phase: Phase::Decode, parallel, stages: vec![vec![GpuId(0)]] };
    match Rated::new(&task, instance) {
        Err(Unfit::Memory(lacks)) => assert!(lacks > 40e9 && lacks < 60e9, "{lacks}"),
        other => panic!("{other:?}"),
    }
}
