use meridian_engine::{Engine, Work};

use super::*;
use crate::check::{check, task_of};
use crate::document::PlanFile;
use crate::import::TopologySpec;
use crate::model::Subject;
use crate::search::plan;
use crate::task::{Lengths, Slo};
use crate::topology::Topology;

const TESTBED: &str = include_str!("../../topologies/heroserve-testbed.yaml");

fn built() -> (Topology, Subject) {
    let topology = TopologySpec::read(TESTBED).unwrap().build().unwrap();
    (topology, Subject::named("opt-66b").unwrap())
}

fn task<'a>(topology: &'a Topology, subject: &'a Subject) -> Task<'a> {
    let (prompt, output) = (Lengths { mean: 1000.0, cv: 1.0 }, Lengths { mean: 250.0, cv: 1.0 });
    let slo = Slo { ttft: 2.5, tpot: 0.15, attainment: 0.9 };
    Task::new(topology, subject, (prompt, output), slo)
}

// A plan of the testbed that was written, read and checked: its instances have the names and the
// context of the rendered files, stages on the plan's GPUs, and what the engine accepts.
#[test]
fn a_plan_becomes_engines() {
    let (topology, subject) = built();
    let file =
        PlanFile::of(&task(&topology, &subject), &plan(&task(&topology, &subject)).unwrap()[0]);
    let fleets = check(&file, &topology, &subject).unwrap();
    let task = task_of(&file, &topology, &subject);
    let all = started(&task, &fleets).unwrap();
    let rated: Vec<_> = fleets.iter().flat_map(Fleet::all).collect();
    assert_eq!(all.len(), rated.len());
    for (one, rated) in all.iter().zip(rated) {
        let parallel = rated.instance.parallel;
        assert!(one.name.starts_with(one.phase.name()), "{}", one.name);
        assert_eq!((one.stages.len(), one.gpus), (parallel.pp as usize, parallel.gpus()));
        assert_eq!(one.config.max_model_len, context(&task));
        Engine::staged(one.config, one.stages.clone(), 1).unwrap();
    }
    let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["prefill-0", "decode-0"]);
}

// A step through the stages takes as long as the planner says, its collectives on the topology
// included: it is not the time of the engine's own groups inside a server.
#[test]
fn steps_take_the_planners_time() {
    let (topology, subject) = built();
    let task = task(&topology, &subject);
    for cell in plan(&task).unwrap()[0].cells.iter() {
        let all = started(&task, core::slice::from_ref(&cell.fleet)).unwrap();
        for (one, rated) in all.iter().zip(cell.fleet.all()) {
            let mut work = Work::default();
            match one.phase {
                Phase::Prefill => work.prefill(0, 1000),
                Phase::Decode => (0..40).for_each(|_| work.decode(1250)),
            }
            let ways = |stage: &Stage, tokens: f64| {
                let each = stage.reduce.iter().map(|way| way.fixed + way.token * tokens);
                each.fold(f64::INFINITY, f64::min)
            };
            let part = |stage: &Stage| {
                let pass = stage.pass.fixed + stage.pass.token * work.tokens;
                stage.terms.seconds(&work) + ways(stage, work.tokens) + pass
            };
            let ours: f64 = one.stages.iter().map(part).sum();
            let parts = Parts::of(&task, &rated.instance).unwrap();
            let alone: f64 = parts.stages.iter().map(|stage| stage.terms.seconds(&work)).sum();
            assert!(ours > alone * 1.01, "{}: {ours} {alone}", one.name);
            if one.phase == Phase::Prefill {
                assert!((ours / rated.service - 1.0).abs() < 1e-3, "{ours} {}", rated.service);
            }
        }
    }
}

// The ways of KV carry each byte of a prompt once at least, and take the transfer's time.
#[test]
fn ways_are_the_planned_transfers() {
    let (topology, subject) = built();
    let task = task(&topology, &subject);
    let fleets: Vec<Fleet> =
        plan(&task).unwrap()[0].cells.iter().map(|cell| cell.fleet.clone()).collect();
    let kv = kv_ways(&task, &fleets).unwrap();
    let (from, to) = (&fleets[0].prefill[0].instance, &fleets[0].decode[0].instance);
    let way = &kv.ways[&("prefill-0".to_owned(), "decode-0".to_owned())];
    let planned = transfer(&task, from, to).unwrap();
    let bytes = subject.shape.kv_bytes(1) * task.prompt.mean;
    assert!((way.latency + way.per_byte * bytes - planned.seconds).abs() < 1e-12);
    assert_eq!(way.mean, planned.seconds);
    assert_eq!(kv.rates.len(), planned.loads.iter().count());
    let slowest = way.loads.iter().map(|(at, load)| load / kv.rates[*at]).fold(0.0, f64::max);
    assert!((slowest / way.per_byte - 1.0).abs() < 1e-9, "{slowest} {}", way.per_byte);
}

// Ranks that share experts are refused, with the instance and a remedy.
#[test]
fn shared_experts_are_refused() {
    let yaml = "version: 1\nunits:\n- servers:\n  - {count: 2, gpu: h200, gpus: 8, nvlink: 450GB/s, \
                cards: 8, card_rate: 400Gb/s}\n";
    let topology = TopologySpec::read(yaml).unwrap().build().unwrap();
    let subject = Subject::named("deepseek-v3").unwrap();
    let task = task(&topology, &subject);
    let parallel = crate::instance::Parallel { tp: 8, pp: 1, ep: true };
    let stages = vec![(0..8).map(crate::topology::GpuId).collect()];
    let instance = Instance { phase: Phase::Decode, parallel, stages };
    let error = one(&task, &instance, "decode-0".to_owned()).unwrap_err().to_string();
    assert!(error.starts_with("decode-0.ep: true; the engine model can't start"), "{error}");
}
