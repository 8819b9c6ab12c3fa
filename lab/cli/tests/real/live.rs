//! `meridian experiment --live`: real processes and the simulator, side by side.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::common::{LIMIT, fleet, llamacpp, must};
use meridian_fleet::llamacpp::{Installed, LlamaCpp};
use serde_json::Value;

// Two systems of an experiment run on real processes: one gateway for all sites behind the emulated
// WAN, and one gateway for each site, which are peers. The run fails if the counts of clients,
// gateways and engines differ. The report has both columns, and every live request has ended.
#[tokio::test]
async fn live_stands_beside_simulated() {
    let fleet = fleet();
    let out = fleet.dir().join("out");
    let shown = out.display().to_string();
    let args = ["experiment", "gorgo-tables", "--live", "--quick", "--out", &shown];
    let mut run = must(fleet.meridian("experiment", args, &[]).await);
    let status = must(run.wait(LIMIT).await);
    assert!(status.success(), "{}", run.log_tail());

    let file = std::fs::read(out.join("results.json")).expect("there are results");
    let results: Value = serde_json::from_slice(&file).expect("they are JSON");
    let rows = results["rows"].as_array().expect("there are rows");
    let systems = |live: bool| -> Vec<&str> {
        let rows = rows.iter().filter(|row| row["live"] == live);
        rows.filter_map(|row| row["system"].as_str()).collect()
    };
    assert_eq!(systems(true), ["least-load", "meridian"]);
    assert_eq!(systems(false), systems(true));
    for row in rows {
        assert!(row["requests"].as_f64() > Some(0.0), "{row}");
        assert!(row["ttft_ms"]["p50"].as_f64() > Some(0.0), "{row}");
        assert_eq!((&row["lost"], &row["rejected"]), (&Value::from(0), &Value::from(0)), "{row}");
    }
    let report = std::fs::read_to_string(out.join("report.md")).expect("there is a report");
    for part in ["throughput_rps live | simulated", "same order", "| idle | this fleet |"] {
        assert!(report.contains(part), "{part}: {report}");
    }
}

/// A program that takes `llama-server`'s arguments and starts the installed server with them. It notes
/// its starts, and fails if the server before it still runs.
fn stand_in(folder: &Path, installed: &Installed) -> PathBuf {
    let Installed { python, serve, .. } = installed;
    let (python, serve, folder_name) = (python.display(), serve.display(), folder.display());
    let script = format!(
        r#"#!/bin/sh
while [ $# -gt 0 ]; do
    case "$1" in
    --model) model=$2 ;;
    --port) port=$2 ;;
    --ctx-size) context=$2 ;;
    --parallel) slots=$2 ;;
    esac
    shift
done
others=$(cat {folder_name}/pids 2>/dev/null)
[ "$(echo $others | wc -w)" -lt 3 ] || for pid in $others; do
    ! kill -0 "$pid" 2>/dev/null || {{ echo "server $pid still runs" >&2; exit 9; }}
done
[ "$(echo $others | wc -w)" -lt 3 ] || : >{folder_name}/pids
echo $$ >>{folder_name}/pids
echo $$ >>{folder_name}/starts
exec {python} {serve} "$model" "$port" "$slots" $((context / slots)) --until-stdin-closes
"#
    );
    let path = folder.join("llama-server");
    std::fs::write(&path, script).expect("writes the script");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&path, mode).expect("it can be executed");
    path
}

// An experiment on servers of the user's choice: three that are measured, and three for each of the two
// systems. Those of a fleet have exited before the next one starts.
#[tokio::test]
async fn servers_of_the_users_choice() {
    let LlamaCpp::Installed(installed) = llamacpp().await else { unreachable!("just installed") };
    let fleet = fleet();
    let (out, program) = (fleet.dir().join("out"), stand_in(fleet.dir(), &installed));
    let shown = |path: &PathBuf| path.display().to_string();
    let [out_shown, program, model] = [&out, &program, &installed.model].map(shown);
    let args = ["experiment", "llm-cache-router", "--live", "--quick", "--out", &out_shown];
    let own = ["--llama-server", &program, "--gguf", &model];
    let mut run = must(fleet.meridian("experiment", args.into_iter().chain(own), &[]).await);
    let status = must(run.wait(LIMIT).await);
    assert!(status.success(), "{}", run.log_tail());
    let starts = std::fs::read_to_string(fleet.dir().join("starts")).expect("servers started");
    assert_eq!(starts.lines().count(), 9, "{starts}");
    let file = std::fs::read(out.join("results.json")).expect("there are results");
    let results: Value = serde_json::from_slice(&file).expect("they are JSON");
    let rows = results["rows"].as_array().expect("there are rows");
    let live: Vec<&Value> = rows.iter().filter(|row| row["live"] == true).collect();
    assert_eq!(live.len(), 2, "{rows:?}");
    assert!(live.iter().all(|row| row["requests"].as_f64() > Some(0.0)), "{live:?}");
    let report = std::fs::read_to_string(out.join("report.md")).expect("there is a report");
    assert!(report.contains(&format!("--llama-server {program} --gguf {model}")), "{report}");
}

// The flow testbed runs a few requests on real sockets: every system ends, gates give permits for the
// bytes of the systems that have them, and no call of a gate fails. Without root, namespaces, Mooncake's
// libraries or the gate's library it says so.
#[tokio::test]
async fn flows_run_on_real_sockets() {
    let fleet = fleet();
    let out = fleet.dir().join("out");
    let shown = out.display().to_string();
    let args = ["experiment", "mfs-testbed", "--live", "--quick", "--out", &shown];
    let mut run = must(fleet.meridian("testbed", args, &[]).await);
    let status = must(run.wait(LIMIT).await);
    let log = run.log_tail();
    let lacks = ["needs root", "the hosts need root", "meridian-flow-abi", "apt-get"];
    if !status.success() && lacks.iter().any(|lack| log.contains(lack)) {
        println!("NOT CHECKED: flows on real sockets, since this machine lacks something:\n{log}");
        assert!(std::env::var_os("MERIDIAN_REQUIRE_REAL").is_none(), "{log}");
        return;
    }
    assert!(status.success(), "{log}");
    let file = std::fs::read(out.join("results.json")).expect("there are results");
    let results: Value = serde_json::from_slice(&file).expect("they are JSON");
    let rows = results["rows"].as_array().expect("there are rows");
    for live in [true, false] {
        let rows = rows.iter().filter(|row| row["live"] == live);
        let names: Vec<_> = rows.filter_map(|row| row["system"].as_str()).collect();
        let all = ["fair", "two_class", "tent", "gates", "mfs", "mfs_alone"];
        assert_eq!(names, all, "live: {live}");
    }
    for row in rows.iter().filter(|row| row["live"] == true) {
        assert!(row["ttft_ms"]["mean"].as_f64() > Some(0.0), "{row}");
        let has_gate = row["system"] != "fair" && row["system"] != "two_class";
        assert_eq!(row["gated_bytes"].as_u64() > Some(0), has_gate, "{row}");
        assert_eq!(row["failed_calls"], 0, "{row}");
    }
}
