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
