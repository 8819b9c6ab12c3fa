use super::{compare, *};
use crate::cluster::compare::Compare;

const TABLE_1: &str = include_str!("../../../../experiments/flows/table1.yaml");
const FIGURE_6: &str = include_str!("../../../../experiments/flows/figure6.yaml");
const FIGURE_7: &str = include_str!("../../../../experiments/flows/figure7.yaml");

fn options(policies: &[&str]) -> Compare {
    let policies = policies.iter().map(|name| (*name).to_owned()).collect();
    Compare { policies, seed: 1, port: None, from: None, window: None }
}

/// When each flow of a file ends under each policy, ms, to the ms.
fn ends(yaml: &str, policies: &[&str]) -> Vec<Vec<u64>> {
    let file = File::read(yaml).unwrap();
    let found = compare::run(&file, &options(policies)).unwrap();
    let of = |row: &serde_json::Value| {
        let end = |flow: &file::Flow| row["ends_ms"][&flow.name].as_f64().unwrap().round() as u64;
        file.flows.iter().map(end).collect()
    };
    found.rows.iter().map(of).collect()
}

// The paper's Table 1 from a file, over the simulator's network and machine: the end of each flow
// under each policy, in units of 100 ms. Only defer-and-promote has all three in time.
#[test]
fn table_1_runs_from_its_file() {
    let found = ends(TABLE_1, &["fair", "sjf", "edf", "mfs"]);
    let expected = [[600, 900, 800], [200, 900, 500], [700, 900, 300], [900, 400, 700]];
    assert_eq!(found, expected);
    let file = File::read(TABLE_1).unwrap();
    let found = compare::run(&file, &options(&["fair", "sjf", "edf", "mfs", "two_class"])).unwrap();
    let last = found.tables[0].rows.last().unwrap();
    assert_eq!(last[4..], ["1 of 3", "2 of 3", "2 of 3", "3 of 3", "2 of 3"]);
}

// Figures 6 and 7 from their files: under defer-and-promote the collective ends after its own
// length, under the others it also takes the time of the smaller KV flow.
#[test]
fn figures_6_and_7_run_from_their_files() {
    let policies = ["fair", "sjf", "edf", "mfs"];
    let first = |yaml| ends(yaml, &policies).into_iter().map(|of| of[0]).collect::<Vec<_>>();
    assert_eq!(first(FIGURE_6), [300, 300, 300, 200]);
    assert_eq!(first(FIGURE_7), [400, 400, 400, 300]);
}

// The timeline covers the whole run, by the flows' own names, and on a link that is never idle
// there is always a flow.
#[test]
fn a_timeline_names_the_flows() {
    let file = File::read(TABLE_1).unwrap();
    let found = compare::run(&file, &options(&["mfs"])).unwrap();
    let svg = &found.figures[0].svg;
    for words in ["A, level 1: rli 0", "B, level 1: rli 0", "C, level 0: mlu"] {
        assert!(svg.contains(words), "{words}");
    }
    assert!(svg.contains("ms from 0.000 s") && svg.contains("900.0"));
    let shares = &found.tables[1].rows[0][1..4];
    assert_eq!(shares, ["22.2 %", "44.4 %", "33.3 %"]);
}

// A flow starts when those before it have ended, after its release: layer 1's collective follows
// layer 0's and 30 ms of computation, and reuse for layer 1 is placed by its distance until then.
#[test]
fn flows_come_after_others() {
    let yaml = "
ports: {a: 1GB/s, b: 1GB/s}
flows:
  - {name: first, request: r, stage: collective, layer: 0, size: 20MB, ports: [a, b]}
  - {name: fetch, request: r, stage: reuse, layer: 1, size: 20MB, ports: [b]}
  - {name: second, request: r, stage: collective, layer: 1, size: 10MB, ports: [a], after: [first, fetch], release: 30ms}
";
    assert_eq!(ends(yaml, &["mfs"]), [[20, 40, 80]]);
}

fn refused(from: &str, to: &str) -> String {
    assert!(TABLE_1.contains(from), "{from}");
    let file = File::read(&TABLE_1.replace(from, to));
    let error = file.and_then(|file| compare::run(&file, &options(&["mfs"])).map(|_| ()));
    format!("{:#}", error.expect_err(to))
}

// Every error in a file is reported with the flow, the field, its value and the remedy.
#[test]
fn a_bad_file_names_what_is_wrong() {
    let c = "{name: C, stage: handoff, size: 300MB, ports: [link], deadline: 700ms}";
    for (from, to, words) in [
        (c, "{name: C, stage: handoff, ports: [link]}", "flows[2] (C): size is missing"),
        ("300MB", "0B", "flows[2] (C): size is 0B: give at least 1B"),
        ("300MB", "300", "`300` is not a size: write it with a unit"),
        ("300MB", "-3MB", "`-3MB` is not a size: use 1B to"),
        ("1GB/s", "0GB/s", "`0GB/s` would be a dead port"),
        ("700ms", "0s", "flows[2] (C): deadline is 0ns, and the flow begins at 0ns"),
        (
            "700ms",
            "700ms, release: 1s",
            "deadline is 700ms, and the flow begins at 1s at the earliest",
        ),
        ("700ms", "2h", "flows[2] (C): deadline is 7200s: use 3600s or less"),
        (
            "ports: [link], deadline: 700ms",
            "ports: [lnk]",
            "ports names `lnk`, which has no rate: use one of link",
        ),
        ("ports: [link], deadline: 700ms", "ports: []", "ports is empty"),
        ("ports: [link], deadline: 700ms", "ports: [link, link]", "has a name twice"),
        ("700ms", "700ms, after: [D]", "after names `D`, which is not a flow"),
        ("700ms", "700ms, after: [C]", "flows[2] (C).after is a cycle, C after C"),
        (
            "700ms",
            "700ms, request: A",
            "flows[2] (C).deadline is 700.000ms, and request `A` has 1800.000ms",
        ),
        ("name: C", "name: A", "flows[2].name is `A` for a second time"),
        ("300MB", "30000GB", "flows take up to 30001 s one after the other, flows[2] (C) most"),
        ("ratio: 4", "ratio: 1", "thresholds.ratio 1 is out of range"),
        ("{top: 1, ratio: 4}", "sharp", "use paper, corrected, or as {top: 1, ratio: 4}"),
        ("stage: handoff", "stage: handof", "handof"),
        ("then: 900ms", "than: 900ms", "than"),
    ] {
        let message = refused(from, to);
        assert!(message.contains(words), "{to}: {message}");
    }
}

// Flows that wait for each other are reported as their cycle, without others that wait for them.
// Layers of one batch that would run backwards are refused, those of two batches are not.
#[test]
fn a_cycle_is_named() {
    let flow = |name: &str, layer: u16, after: &str| {
        format!(
            "  - {{name: {name}, request: r, stage: collective, layer: {layer}, size: 1MB, ports: [p], after: [{after}]}}\n"
        )
    };
    let run = |flows: &[String]| {
        let yaml = format!("ports: {{p: 1GB/s}}\nflows:\n{}", flows.concat());
        let file = File::read(&yaml).unwrap();
        compare::run(&file, &options(&["mfs"])).map(|_| ()).map_err(|error| format!("{error:#}"))
    };
    let round = run(&[flow("x", 0, "b"), flow("a", 0, "c"), flow("b", 1, "a"), flow("c", 2, "b")]);
    assert!(round.unwrap_err().contains("is a cycle, b after a after c after b: none of them"));
    let back = run(&[flow("a", 2, ""), flow("b", 1, "a")]).unwrap_err();
    assert!(back.contains("flows[1] (b): layer is 1 and comes after layer 2 (`a`)"), "{back}");
    let chunks = [flow("a", 2, ""), flow("b", 1, "a").replace("request: r", "request: s")];
    run(&chunks).unwrap();
}

// Many flows that start late and end soon do not make a long run.
#[test]
fn releases_side_by_side_do_not_add_up() {
    let flow = |nth: u32| {
        format!("  - {{name: f{nth}, stage: reuse, size: 1kB, ports: [p], release: 60s}}\n")
    };
    let flows: String = (0..100).map(flow).collect();
    let found = ends(&format!("ports: {{p: 1GB/s}}\nflows:\n{flows}"), &["fair"]);
    assert_eq!(found[0], [60_000; 100]);
}

// One seed, one page, byte for byte.
#[test]
fn the_same_file_gives_the_same_bytes() {
    let file = File::read(TABLE_1).unwrap();
    let run = || compare::run(&file, &options(&["mfs", "karuna", "edf_drop"])).unwrap();
    let (a, b) = (run(), run());
    assert_eq!((a.text(), a.figures), (b.text(), b.figures));
}
