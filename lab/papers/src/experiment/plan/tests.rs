use super::*;
use crate::experiment::ALL;
use crate::experiment::registry::Entry;
use crate::experiment::spec::{Ref, read};

const GOOD: &str = "
title: t
reproduces: r
regions: one
fleets:
  - {name: f, groups: [{gpu: l4, model: llama-3.1-8b, count: [2]}]}
workloads:
  - {name: w, loads: [{generator: tree2, clients: [3]}]}
systems:
  - {name: s, policy: round_robin, topology: region_local}
";

const LOAD: &str = "generator: tree2, clients: [3]";

fn error(yaml: &str) -> String {
    let spec = read::<Spec>("test", yaml).map_err(|e| format!("{e:#}"));
    match spec.and_then(|spec| Plan::new(&spec, false).map(|_| ()).map_err(|e| format!("{e:#}"))) {
        Ok(()) => "fine".to_owned(),
        Err(text) => text,
    }
}

// Each problem is reported with its field, its value and the remedy; each line changes one part of
// a valid experiment.
#[test]
fn errors_name_field_value_and_remedy() {
    assert_eq!(error(GOOD), "fine");
    let cases: &[(&str, &str, &str)] = &[
        // An unknown key, on each level.
        ("title: t", "title: t\ncolour: red", "unknown field `colour`"),
        ("count: [2]", "count: [2], size: 3", "unknown field `size`"),
        ("topology: region_local", "topology: region_local, speed: 3", "unknown field `speed`"),
        // Unknown names.
        ("regions: one", "regions: mars", "regions: `mars` is not in the catalogue; use one of "),
        (
            "round_robin",
            "wound_robin",
            "(s).policy: `wound_robin` is unknown; did you mean `round_robin`? Use one of ",
        ),
        (
            "round_robin",
            "{name: round_robin, spin: 3}",
            "policy.spin: `round_robin` has no such parameter; it has none",
        ),
        ("tree2", "shrub", "generator: `shrub` is unknown; use one of "),
        ("tree2", "{name: tree2, leaves: 3}", "leaves"),
        ("gpu: l4", "gpu: l5", "gpu `l5`, tp 1: unknown gpu: known are l4"),
        ("region_local", "{central: mars}", "topology.central: `mars` is unknown; use one of us"),
        (
            "title: t",
            "title: t\nshow: [speed]",
            "show: `speed` is unknown; use one of throughput_rps",
        ),
        // Inconsistent lists.
        ("count: [2]", "count: [2, 2]", "count: 2 numbers for 1 regions; give one for each"),
        ("clients: [3]", "clients: [3, 4]", "clients: 2 numbers for 1 regions; give one for each"),
        (
            "regions: one",
            "regions: {name: x, regions: [{name: a, continent: c}, {name: b, continent: c}], \
             rtt_ms: [[1, 2], [2]]}",
            "regions.rtt_ms: rows of 2, 1 for 2 regions; give 2 rows of 2",
        ),
        // Missing required values.
        ("clients: [3]", "clients: [0]", "clients: 0 in every region; use at least one client"),
        ("clients: [3]", "rate: [0]", "rate: 0 in every region; use a rate above 0"),
        (
            "clients: [3]",
            "clients: [3], rate: [3]",
            "give either clients or rate, a list by region, or capacity",
        ),
        ("count: [2]", "count: [0]", "fleets (f): 0 replicas; count at least one"),
        ("title: t", "title: t\nseeds: 0", "seeds: 0 runs nothing; use 1 or more"),
        (
            "title: t",
            "title: t\nmeasure: {warmup: 1s, window: 0s}",
            "measure.window: 0s would measure",
        ),
        // Units and ranges.
        ("title: t", "title: t\nmeasure: {warmup: 5, window: 9s}", "`5` has no unit; write 5s"),
        ("region_local", "{waterfall: 80}", "topology: 80 is not a share; use 0 to 1"),
        ("topology:", "admission: {outstanding: 0}, topology:", "admission.outstanding: 0 would"),
        // Traces: none or two of the required values, shares that do not fit, a window longer than
        // the trace.
        (LOAD, "trace: {name: mars}", "loads[0].trace.name: `mars` is not an excerpt; use one"),
        (LOAD, "trace: {}", "loads[0].trace.give either the name of an excerpt or a file"),
        (LOAD, "trace: {file: /nowhere}", "loads[0].trace.file: /nowhere: No such file"),
        (LOAD, "clients: [3]", "loads[0].generator: give either a generator or a trace"),
        (LOAD, "trace: {name: azure}, rate: [3]", "loads[0]: a trace has its own times; leave"),
        (LOAD, "trace: {name: azure, speed: 0}", "speed: 0 is not a speed; use a number above 0"),
        (LOAD, "trace: {name: azure, share: [1, 1]}", "share: 2 numbers for 1 regions; give one"),
        (LOAD, "trace: {name: azure, share: [0]}", "share: 0 in every region; use a share above"),
        (LOAD, "trace: {name: azure, speed: 9}", "ends after 1200 s, and the run needs 3240 s of"),
        // Figures that refer to missing items.
        (
            "title: t",
            "title: t\npublished: [{what: x, source: y, metric: lost, of: [z], value: 1}]",
            "published[0]: `z` is unknown; use one of s",
        ),
    ];
    for (from, to, expected) in cases {
        let found = error(&GOOD.replacen(from, to, 1));
        assert!(found.contains(expected), "{to}: {found}");
    }
}

// The same for capacities, levels, bursts and degraded replicas.
#[test]
fn errors_of_hard_settings() {
    let cases: &[(&str, &str, &str)] = &[
        // Capacities, levels and bursts.
        (
            "clients: [3]",
            "capacity: 3",
            "loads[0].share: missing; give each region's share of capacity",
        ),
        (
            "clients: [3]",
            "capacity: 0, share: [1]",
            "capacity: 0 is not a rate; use a number above 0",
        ),
        ("clients: [3]", "capacity: 3, share: [1, 2]", "share: 2 numbers for 1 regions; give one"),
        ("clients: [3]", "capacity: 3, share: [0]", "share: 0 in every region; use a share above"),
        ("clients: [3]", "clients: [3], share: [1]", "share: given without a capacity; give one"),
        ("title: t", "title: t\nlevels: [0.5]", "levels: no workload has a capacity; give one, or"),
        ("title: t", "title: t\nlevels: [-1]", "levels: -1 is not a share of a capacity; use a"),
        (
            "clients: [3]",
            "clients: [3], bursts: {times: 3, length: 60s, every: 300s}",
            "loads[0].bursts: only an open loop has it; use rate or capacity, or leave it out",
        ),
        (
            "clients: [3]",
            "rate: [3], bursts: {times: 0.5, length: 60s, every: 300s}",
            "loads[0].bursts.times: 0.5 is not a factor; use 1 to 1000",
        ),
        (
            "clients: [3]",
            "rate: [3], bursts: {times: 3, length: 60s, every: 60s}",
            "loads[0].bursts.length: 60s of every 60s; use a time above 0 and below `every`",
        ),
        // Degraded replicas.
        (
            "{name: f,",
            "{name: f, degraded: [{replica: 2, factor: 3, at: 5s, until: 9s}],",
            "fleets (f).degraded[0].replica: 2 of 2 replicas; use 0 to 1",
        ),
        (
            "{name: f,",
            "{name: f, degraded: [{replica: 0, factor: 0.5, at: 5s, until: 9s}],",
            "fleets (f).degraded[0].factor: 0.5 is not a slowdown; use 1 to 1000",
        ),
        (
            "{name: f,",
            "{name: f, degraded: [{replica: 0, factor: 3, at: 9s, until: 9s}],",
            "fleets (f).degraded[0].until: 9s is not after 9s; use a later time, or an earlier `at`",
        ),
        (
            "{name: f,",
            "{name: f, degraded: [{replica: 0, factor: 3, at: 1s, until: 9s}, \
             {replica: 0, factor: 2, at: 8s, until: 12s}],",
            "fleets (f).degraded[1].at: 8s is within another time of replica 0; use times that do",
        ),
    ];
    for (from, to, expected) in cases {
        let found = error(&GOOD.replacen(from, to, 1));
        assert!(found.contains(expected), "{to}: {found}");
    }
}

// The same for pools and racks.
#[test]
fn errors_of_pools() {
    let decode = "{gpu: l4, model: llama-3.1-8b, count: [2], pool: {role: decode}}";
    let cases: &[(&str, &str, &str)] = &[
        (
            "count: [2]",
            "count: [2], pool: {role: prefill}",
            "fleets (f).groups: replicas for prefill and none for decode; add a group with",
        ),
        (
            "count: [2]",
            "count: [2], pool: {role: both}",
            "groups[0].pool.role: both; use prefill or decode, or leave the pool out",
        ),
        ("count: [2]", "count: [2], pool: {role: writer}", "`writer` is not a role"),
        (
            "count: [2]",
            "count: [2], pool: {role: decode, gbps: 0}",
            "groups[0].pool.gbps: 0 is not a rate; use a number of Gb/s above 0",
        ),
        (
            "count: [2]",
            "count: [2], pool: {role: decode, rack: 1}",
            "groups[0].pool.rack: 1, and the fleet has 0 racks; give it a rate in `racks`",
        ),
        (
            "{name: f,",
            "{name: f, racks: [0],",
            "fleets (f).racks[0]: 0 is not a rate; use a number of Gb/s above 0",
        ),
    ];
    for (from, to, expected) in cases {
        let found = error(&GOOD.replacen(from, to, 1));
        assert!(found.contains(expected), "{to}: {found}");
    }
    let pools =
        format!("{{gpu: l4, model: llama-3.1-8b, count: [1], pool: {{role: prefill}}}}, {decode}");
    let good = GOOD.replace("{gpu: l4, model: llama-3.1-8b, count: [2]}", &pools);
    assert_eq!(error(&good), "fine");
}

// Outages and residency rules name regions of the experiment and parts of the window; a workload may
// name its systems.
#[test]
fn errors_of_places() {
    let outage = |text: &str| format!("loads: [{{{LOAD}}}], faults: [{{{text}}}]");
    let rule = |text: &str| format!("loads: [{{{LOAD}, may_run_in: {{{text}}}}}]");
    let systems = |text: &str| format!("loads: [{{{LOAD}}}], systems: [{text}]");
    for (part, expected) in [
        (outage("lost: {region: us}, from: 0.2, until: 0.5"), "fine"),
        (outage("lost: {links: mars}, from: 0, until: 1"), "faults[0].lost: `mars` is unknown"),
        (outage("lost: {gateways: us}, from: 0.5, until: 0.5"), "from 0.5 until 0.5 is not a part"),
        (outage("lost: {gateways: us}, from: 0, until: 60"), "use shares of it, 0 to 1"),
        (rule("us: [us]"), "fine"),
        (rule("mars: [us]"), "loads[0].may_run_in: `mars` is unknown; use one of us"),
        (rule("us: [mars]"), "loads[0].may_run_in: `mars` is unknown; use one of us"),
        (rule("us: []"), "may_run_in.us: empty; name the regions that may serve"),
        (systems("s"), "fine"),
        (systems("z"), "workloads (w).systems: `z` is unknown; use one of s"),
    ] {
        let found = error(&GOOD.replace(&format!("loads: [{{{LOAD}}}]"), &part));
        assert!(found.contains(expected), "{part}: {found}");
    }
}

// A workload runs under the systems that it names.
#[test]
fn workloads_choose_systems() {
    let other = "  - {name: t, policy: random, topology: flat}\n";
    let yaml = GOOD.replace("clients: [3]}]", "clients: [3]}], systems: [t]") + other;
    let plan = Plan::new(&read::<Spec>("test", yaml.trim_start()).unwrap(), false).unwrap();
    assert_eq!(plan.cells(), [Cell { workload: 0, fleet: 0, system: 1 }]);
}

// All problems are reported at once.
#[test]
fn errors_come_together() {
    let yaml = GOOD.replace("clients: [3]", "clients: [0]").replace("count: [2]", "count: [0]");
    assert_eq!(error(&yaml).lines().count(), 2);
}

// The built-in files are valid, complete and small, and contain the items that their claims refer
// to.
#[test]
fn every_experiment_is_fine() {
    let cells = |entry: &Entry, quick| {
        let spec: Spec = read(entry.name, entry.yaml).expect(entry.name);
        // Without a simulation, or with systems that their code adds and checks.
        if spec.regions.is_none() || spec.draw.is_some() || entry.name == "meridian-saturation" {
            return 0;
        }
        Plan::new(&spec, quick).expect(entry.name).cells().len()
    };
    for entry in ALL {
        assert!(cells(entry, true) <= cells(entry, false), "{}", entry.name);
    }
}

// The small variant keeps what it names, makes the rest smaller and leaves nothing empty.
#[test]
fn quick_is_smaller() {
    let quick = "quick: {share: 0.1, measure: {warmup: 1s, window: 2s}}";
    let spec: Spec = read("test", &format!("{GOOD}{quick}")).unwrap();
    let plan = Plan::new(&spec, true).unwrap();
    assert_eq!(plan.fleets[0].groups[0].count, [1]);
    assert_eq!(plan.workloads[0].0.loads[0].clients, Some(vec![1]));
    assert_eq!(plan.measure.window, meridian_protocol::units::Span::secs(2));
}

// A workload with a capacity runs at each level: its rates are capacity x level, divided by the
// shares. One without a capacity runs once.
#[test]
fn levels_multiply_capacities() {
    let yaml = GOOD.replace(
        "  - {name: w,",
        "  - {name: open, loads: [{generator: tree2, capacity: 40, share: [8]}]}\n  - {name: w,",
    );
    let spec: Spec = read("test", &format!("{yaml}\nlevels: [0.5, 0.95]")).unwrap();
    let rates = |quick| {
        let plan = Plan::new(&spec, quick).unwrap();
        let of = |(w, _): &(Workload, Vec<Feed>)| {
            (w.name.clone(), w.base().to_owned(), w.loads[0].rates(w.level))
        };
        plan.workloads.iter().map(of).collect::<Vec<_>>()
    };
    let line = |name: &str, base: &str, rates| (name.to_owned(), base.to_owned(), rates);
    let all = [
        line("open at 50 %", "open", Some(vec![20.0])),
        line("open at 95 %", "open", Some(vec![38.0])),
        line("w", "w", None),
    ];
    assert_eq!(rates(false), all);
    assert_eq!(rates(true)[1].2, Some(vec![9.5]));
}

// The worlds are valid with all of their names: each workload has a half and a fleet that exists.
#[test]
fn worlds_are_fine() {
    for world in ["comparison", "hard"] {
        let yaml = format!(
            "{{title: t, reproduces: r, world: {world}, \
             systems: [{{name: s, policy: random, topology: flat}}]}}"
        );
        let plan = Plan::new(&read("test", &yaml).unwrap(), false).expect(world);
        assert!(plan.workloads.iter().all(|w| w.0.half.is_some()), "{world}");
        let mut names: Spec = read("test", &yaml).unwrap();
        names.workloads = plan.workloads.iter().map(|w| Ref::Named(w.0.name.clone())).collect();
        assert_eq!(Plan::new(&names, false).expect(world).cells(), plan.cells(), "{world}");
    }
}
