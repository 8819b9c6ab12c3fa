use meridian_flow::Stage;

use super::*;
use crate::experiment::{find, spec};

/// The experiment's own settings with few requests.
fn small(requests: u32) -> FlowTestbed {
    let entry = find("mfs-testbed").expect("it is registered");
    let all: spec::Spec = spec::read(entry.name, entry.yaml).unwrap();
    let mut own = all.flow_testbed.expect("the file has it");
    own.load.requests = requests;
    own
}

fn scores(ratios: [f64; 3]) -> Score {
    let [in_time, ttft, exchange] = ratios;
    Score { in_time: 0.5 * in_time, ttft: 100.0 * ttft, exchange: 10.0 * exchange }
}

// A seed is one plan, another seed another one. Batches have all requests once, in order of arrival,
// and none starts before its requests are there.
#[test]
fn a_seed_is_a_plan() {
    let spec = small(40);
    let plan = Plan::draw(&spec, 40, 3);
    assert_eq!(plan, Plan::draw(&spec, 40, 3));
    assert_ne!(plan, Plan::draw(&spec, 40, 4));
    let all: Vec<u32> = plan.batches.iter().flat_map(|batch| batch.requests.clone()).collect();
    assert_eq!(all, (0..40).collect::<Vec<_>>());
    assert!(plan.requests.is_sorted_by(|a, b| a.arrival <= b.arrival));
    for (number, batch) in plan.batches.iter().enumerate() {
        assert!(batch.requests.len() <= spec.load.batch as usize);
        for request in &batch.requests {
            let one = &plan.requests[*request as usize];
            assert_eq!((one.batch as usize, one.arrival <= batch.from), (number, true));
        }
    }
    assert!(plan.batches.iter().any(|batch| batch.requests.len() > 1), "no batch of several");
}

// Every request has its flows in every layer and the bytes of its tokens; every layer of a batch has
// two exchanges in both directions.
#[test]
fn bytes_add_up() {
    let spec = small(24);
    let plan = Plan::draw(&spec, 24, 1);
    let fair = config(&Settings::default(), FAIR).unwrap();
    let given = flows::given(&plan, fair, Enforce::Total).unwrap();
    let sum = |stage: Stage, of: &dyn Fn(u32) -> bool| {
        let flows = given.flows.iter().filter(|flow| flow.stage == stage && of(flow.request));
        flows.fold((0, 0), |(count, bytes), flow| (count + 1, bytes + flow.bytes))
    };
    let layers = u64::from(plan.layers);
    for (nth, one) in (0..).zip(&plan.requests) {
        let own = |request: u32| request == nth;
        let tokens = u64::from(one.computed + one.cached);
        assert_eq!(sum(Stage::Handoff, &own), (layers, layers * tokens * spec.model.kv.0));
        let fetched = layers * u64::from(one.cached) * spec.model.kv.0;
        assert_eq!(sum(Stage::Reuse, &own), (layers, fetched));
    }
    for (nth, batch) in (0..).zip(&plan.batches) {
        let own = |request: u32| plan.requests[request as usize].batch == nth;
        let bytes = 2 * layers * batch.exchange.iter().sum::<u64>();
        assert_eq!(sum(Stage::Collective, &own), (4 * layers, bytes));
    }
    let report = cluster::given(&given).unwrap();
    let both = 2.0 * given.flows.iter().map(|flow| flow.bytes as f64).sum::<f64>();
    let carried: f64 = report.carried.iter().sum();
    assert!((carried - both).abs() < 1.0, "{carried} bytes over two ports each, of {both}");
    for (flow, ran) in given.flows.iter().zip(&report.flows) {
        let batch = &plan.batches[plan.requests[flow.request as usize].batch as usize];
        assert!(ran.began.since(Time::ZERO).as_secs_f64() > batch.from - 1e-6);
    }
}

// All systems run with fewer requests. A request alone is in time. Two classes make exchanges shorter
// than fair sharing does, with permits as well.
#[test]
fn the_simulated_side_runs() {
    let spec = small(24);
    let found = simulated(&spec, 1, &|_, _, _| ()).unwrap();
    assert!(found.plan.requests.iter().all(|one| one.slo > 0.0));
    assert!(found.busiest > 0.05 && found.busiest < 1.0, "{}", found.busiest);
    let of = |name: &str| {
        let at = spec.systems.iter().position(|system| system.name == name).unwrap();
        found.scores[at]
    };
    assert!(of("two_class").exchange < of("fair").exchange, "{:?}", found.scores);
    assert!(of("mfs").exchange < of("fair").exchange, "{:?}", found.scores);
    let one = simulated(&small(1), 1, &|_, _, _| ()).unwrap();
    assert!((one.scores[0].in_time - 1.0).abs() < 1e-9, "{:?}", one.scores);
}

// An order and a sign differ where both sides are clear and point in opposite ways. Level ratios
// differ from none.
#[test]
fn only_clear_opposites_differ() {
    let mut spec = small(1);
    spec.systems.retain(|system| ["fair", "tent", "mfs"].contains(&system.name.as_str()));
    let fair = scores([1.0; 3]);
    let judge = |live: [[f64; 3]; 2], simulated: [[f64; 3]; 2]| {
        let all = |of: [[f64; 3]; 2]| [fair, scores(of[0]), scores(of[1])];
        compare::Compared::new(&spec, &all(live), &all(simulated)).opposites()
    };
    let agree = judge([[1.2, 0.8, 0.7], [1.3, 0.6, 0.5]], [[1.5, 0.9, 0.9], [1.9, 0.5, 0.3]]);
    assert_eq!(agree, Vec::<String>::new());
    let level = judge([[1.04, 1.04, 0.97], [1.0; 3]], [[0.8, 0.8, 1.2], [1.0; 3]]);
    assert_eq!(level, Vec::<String>::new());
    let sign = judge([[1.0, 0.8, 1.0], [1.0; 3]], [[1.0, 1.2, 1.0], [1.0; 3]]);
    assert_eq!(sign[0], "TTFT: tent over fair is 0.80 live and 1.20 simulated");
    assert_eq!(sign.len(), 2, "tent and mfs are in another order too: {sign:?}");
    let order = judge([[1.0, 0.5, 1.0], [1.0, 0.7, 1.0]], [[1.0, 0.7, 1.0], [1.0, 0.5, 1.0]]);
    assert_eq!(order, ["TTFT: mfs over tent is 1.40 live and 0.71 simulated"]);
}

// A setting out of range is refused by its name, with the range.
#[test]
fn settings_are_checked() {
    let refused = |change: fn(&mut FlowTestbed)| {
        let mut spec = small(2);
        change(&mut spec);
        settings::check(&spec).unwrap_err().to_string()
    };
    settings::check(&small(2)).unwrap();
    let lanes = refused(|spec| spec.lanes = 17);
    assert_eq!(lanes, "flow_testbed.lanes is 17: use 1 to 16");
    let rate = refused(|spec| spec.load.rate = f64::NAN);
    assert!(rate.starts_with("flow_testbed.load.rate is NaN: use"), "{rate}");
    let fair = refused(|spec| spec.systems.retain(|system| system.name != FAIR));
    assert!(fair.contains("`fair` is missing"), "{fair}");
}
