//! `meridian experiment --live`: real processes and the simulator, side by side.

use crate::common::{LIMIT, fleet, must};
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
