//! `meridian flow sim` as a command: the paper's examples, and the errors about wrong files.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder that is removed at the end of its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("meridian-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the system has a folder for temporary files");
        Folder(path)
    }

    fn sim(&self, file: &Path, more: &[&str]) -> Output {
        let mut command = Command::new(crate::programs::MERIDIAN);
        let command = command.args(["flow", "sim"]).arg(file).args(more).arg("--out").arg(&self.0);
        command.output().expect("the binary was built for this test")
    }

    /// Returns the error about a file that cannot be run; nothing else is printed.
    fn refused(&self, yaml: &str, more: &[&str]) -> String {
        let file = self.0.join("bad.yaml");
        std::fs::write(&file, yaml).expect("the folder is there");
        let output = self.sim(&file, more);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b""[..]), "{yaml}");
        String::from_utf8(output.stderr).expect("it writes UTF-8")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn experiments() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

// Table 1 of the paper from its file: all three requests in time under MFS and under no other, and a
// timeline of the link for each policy.
#[test]
fn the_papers_table_1() {
    let folder = Folder::new("flow-table1");
    let output = folder.sim(&experiments().join("flows/table1.yaml"), &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("it writes UTF-8");
    let met = text.lines().find(|line| line.contains("requests in time"));
    assert_eq!(met.map(|line| line.matches("3 of 3").count()), Some(1), "{text}");
    let policies = ["mfs", "fair", "sjf", "edf", "karuna", "two-class", "edf-drop"];
    for policy in policies {
        let svg = std::fs::read_to_string(folder.0.join(format!("timeline-{policy}.svg")));
        assert!(svg.is_ok_and(|svg| svg.contains("<title>B, level")), "{policy}");
    }
}

const FLOWS: &str = "
ports: {in: 200Gbps, out: 200Gbps}
flows:
  - {name: fetch, request: r, stage: reuse, layer: 1, size: 64MiB, ports: [out, in], deadline: 50ms}
  - {name: exchange, request: r, stage: collective, layer: 1, size: 8MiB, ports: [out], after: [fetch]}
";

const CLUSTER: &str = "
servers: 8
gpus: 8
card: 200Gbps
models:
  - {model: mixtral-8x22b, tensor: 4, ranks: 8, prefill: 1, load: {generator: qwen_b, rate: 0.5}}
known: 8
requests: 16
";

// Bad input is refused with the field, its value and the remedy, both in a file of flows and in one
// of a cluster: a flow without size, a deadline in the past, a cycle of layers, a dead port.
#[test]
fn bad_files_name_field_value_and_remedy() {
    let folder = Folder::new("flow-bad");
    for (of, from, to, words) in [
        (
            FLOWS,
            "size: 64MiB, ",
            "",
            ["flows[0] (fetch): size is missing", "give them, as in size"],
        ),
        (FLOWS, "64MiB", "0B", ["flows[0] (fetch): size is 0B", "give at least 1B"]),
        (FLOWS, "50ms", "0ms", ["flows[0] (fetch): deadline is 0ns", "give a later one, or none"]),
        (
            FLOWS,
            "50ms",
            "50ms, release: 60ms",
            ["deadline is 50ms, and the flow begins at 60ms", "give a later one, or none"],
        ),
        (
            FLOWS,
            "50ms",
            "50ms, after: [exchange]",
            ["is a cycle, fetch after exchange after fetch", "leave one out"],
        ),
        (
            FLOWS,
            "collective, layer: 1",
            "collective, layer: 0",
            ["flows[1] (exchange): layer is 0 and comes after layer 1 (`fetch`)", "count up"],
        ),
        (
            FLOWS,
            "in: 200Gbps",
            "in: 0Gbps",
            ["`0Gbps` would be a dead port", "give a rate above 0"],
        ),
        (CLUSTER, "rate: 0.5}}", "rate: 0.5}, slo: {tight: 1}}", ["slo.tight is 1", "use above 1"]),
        (
            CLUSTER,
            "gpus: 8",
            "gpus: 8\nslow_cards: [{server: 1, card: 2, rate: 0Mbps}]",
            ["`0Mbps` would be a dead port", "leave the port out"],
        ),
        (CLUSTER, "tensor: 4, ", "", ["tensor", "missing"]),
        (CLUSTER, "gpus: 8", "gpus: -8", ["gpus: -8", "not a whole number from 0 to 4294967295"]),
        (FLOWS, "ports: {in", "ports: {in: {", ["not a file of flows", "line 2"]),
    ] {
        assert!(of.contains(from), "{from}");
        let message = folder.refused(&of.replace(from, to), &["--policy", "mfs"]);
        for words in words {
            assert!(message.contains(words), "{to}: {message}");
        }
    }
}

// A trace that ends in the middle of a line is refused with the line, and a trace that is shorter
// than the run with its length.
#[test]
fn a_trace_cut_short_is_refused() {
    let folder = Folder::new("flow-trace");
    let line = |at: u32| {
        format!(
            "{{\"timestamp\": {at}, \"input_length\": 400, \"output_length\": 5, \"hash_ids\": [{at}]}}\n"
        )
    };
    let whole: String = (0..23).map(|at| line(at * 1000)).collect();
    let trace = folder.0.join("trace.jsonl");
    let with = |text: &str| {
        std::fs::write(&trace, text).expect("the folder is there");
        folder.refused(CLUSTER, &["--trace", trace.to_str().expect("a path of ASCII")])
    };
    let short = with(&whole);
    assert!(
        short.contains("the trace holds 23 requests, and known and requests ask for 24"),
        "{short}"
    );
    let cut = with(&(whole + "{\"timestamp\": 24000, \"inp"));
    assert!(cut.contains("line 24") && cut.contains("the trace was cut short"), "{cut}");
}

// Options of a cluster are refused with a file of flows. An unknown port is refused with the known
// ones.
#[test]
fn options_that_do_not_apply_are_refused() {
    let folder = Folder::new("flow-options");
    let rate = folder.refused(FLOWS, &["--rate", "2"]);
    assert!(
        rate.contains("--rate: applies to clusters, and") && rate.contains("remove it"),
        "{rate}"
    );
    let port = folder.refused(FLOWS, &["--port", "up"]);
    assert!(port.contains("--port `up` is not in the file: use one of in, out"), "{port}");
    let window = folder.refused(FLOWS, &["--window", "0s"]);
    assert!(window.contains("--window is 0s: use a length of time"), "{window}");
    let policy = folder.refused(FLOWS, &["--policy", "mfs,best"]);
    assert!(policy.contains("`best` is unknown; use one of mfs, fair"), "{policy}");
}
