use meridian_base::Time;
use meridian_sim::Sample;

use crate::metric::*;

fn record(sent_ms: u64, ttft_ms: u64) -> Record {
    let [ttft, e2e] = [ttft_ms, ttft_ms + 900].map(Duration::from_millis);
    Record {
        prompt_tokens: 100,
        cached_tokens: 25,
        matched_tokens: 25,
        reply_tokens: 10,
        session: 1,
        ..Record::answered(Time::from_millis(sent_ms), ttft, e2e)
    }
}

fn value(report: &Report, name: &str) -> Option<f64> {
    (find(name).expect("the metric is there").1.of)(&Run::new(report, Some(0.5)))
}

// Every metric of a small report with known values.
#[test]
fn known_values() {
    let slow = Record { slo: Some(Duration::from_millis(150)), ..record(1000, 200) };
    let quick = Record { slo: Some(Duration::from_millis(150)), ..record(0, 100) };
    let lost = Record { fate: Fate::Lost, cached_tokens: 0, ..record(2000, 9999) };
    let report = Report {
        requests: vec![quick, slow, lost],
        done_in_window: 2,
        tokens_in_window: 20,
        window: Duration::from_secs(4),
        replica_seconds: 8.0,
        ..Report::default()
    };
    for (name, expected) in [
        ("throughput_rps", Some(0.5)),
        ("output_tps", Some(5.0)),
        ("goodput_rps", Some(0.25)),
        ("ttft_ms.mean", Some(150.0)),
        ("ttft_ms.p50", Some(150.0)),
        ("e2e_ms.mean", Some(1050.0)),
        ("tpot_ms.p99", Some(100.0)),
        ("prefix_hit_ratio", Some(0.25)),
        ("slo_attainment", Some(0.5)),
        ("forwarded_ratio", Some(0.0)),
        ("forwarded_worse_ratio", None),
        ("usd_per_hour", Some(1.0)),
        ("lost", Some(1.0)),
        ("violations", Some(0.0)),
        ("cct_ms", None),
        ("outstanding_spread", None),
    ] {
        assert_eq!(value(&report, name), expected, "{name}");
    }
}

// A forwarded request is compared with the last one of its region that was served locally.
#[test]
fn forwarded_requests_are_compared_with_their_neighbours() {
    let forwarded = |sent, ttft| Record { forwarded: true, ..record(sent, ttft) };
    let elsewhere = Record { region: 1, ..forwarded(1, 999) };
    let requests =
        vec![record(0, 100), forwarded(1, 50), forwarded(2, 150), record(3, 200), elsewhere];
    let report = Report { requests, ..Report::default() };
    assert_eq!(value(&report, "forwarded_worse_ratio"), Some(0.5));
}

// The spread is between replicas' means or peaks over time; with a replica whose value is always
// zero there is no ratio.
#[test]
fn spreads_are_between_replicas() {
    let sample = |s: u64, replica, outstanding, kv_used| Sample {
        at: Time::from_millis(s * 1000),
        replica,
        running: 0,
        outstanding,
        kv_used,
    };
    let samples = vec![
        sample(0, 0, 10, 0.5),
        sample(1, 0, 20, 0.25),
        sample(0, 1, 4, 0.0),
        sample(1, 1, 6, 0.25),
    ];
    let report = Report { samples, ..Report::default() };
    assert_eq!(value(&report, "outstanding_spread"), Some(3.0));
    assert_eq!(value(&report, "kv_peak_ratio"), Some(2.0));
    let idle = Report { samples: vec![sample(0, 0, 10, 0.5), sample(0, 1, 0, 0.0)], ..report };
    assert_eq!(value(&idle, "outstanding_spread"), None);
}

// The names are unique, and include all those of results.json.
#[test]
fn names() {
    let mut names: Vec<_> = all().map(|m| m.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(find("ttft_ms.p95").is_some() && find("nothing").is_none());
}
