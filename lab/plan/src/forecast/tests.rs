use super::*;
use crate::import::TopologySpec;
use crate::model::Subject;
use crate::search::plan;
use crate::task::{Lengths, Slo};

// The forecast by layers is the plan's own. KV that is pulled, and a first token that the decode
// instance computes, come later by the transfer and one to two steps. More load gives longer times; at
// the goodput nearly the promised share is in time, and at most the rate.
#[test]
fn a_forecast_follows_the_plan() {
    let yaml = include_str!("../../topologies/heroserve-testbed.yaml");
    let topology = TopologySpec::read(yaml).unwrap().build().unwrap();
    let subject = Subject::named("opt-66b").unwrap();
    let (prompt, output) = (Lengths { mean: 1000.0, cv: 1.0 }, Lengths { mean: 250.0, cv: 1.0 });
    let slo = Slo { ttft: 2.5, tpot: 0.15, attainment: 0.9 };
    let task = Task::new(&topology, &subject, (prompt, output), slo);
    let ranked = plan(&task).unwrap()[0].cells[0].clone();
    let (fleets, goodput) = ([ranked.fleet.clone()], ranked.verdict.goodput);
    let at = |share: f64, handing| forecast(&task, &fleets, share * goodput, handing);
    let layers = at(0.6, Handing::Layers);
    let own = ranked.fleet.times(&task, &ranked.verdict, 0.6 * goodput);
    assert_eq!((layers.ttft, layers.ttft_within), (own.ttft, own.ttft_within));
    let pulled = at(0.6, Handing::Pulled);
    let kv = crate::transfer::transfer(
        &task,
        &ranked.fleet.prefill[0].instance,
        &ranked.fleet.decode[0].instance,
    );
    let later = pulled.ttft - layers.ttft - kv.unwrap().seconds;
    assert!(later > 0.9 * pulled.tpot && later < 2.2 * pulled.tpot, "{later} {}", pulled.tpot);
    let full = at(1.0, Handing::Layers);
    assert!(full.ttft > layers.ttft && full.tpot > layers.tpot);
    assert!((full.good / goodput - 0.9).abs() < 0.02, "{} of {goodput}", full.good);
    assert!(layers.good > 0.9 * 0.6 * goodput && layers.good <= 0.6 * goodput);
}
