use std::path::PathBuf;

use super::*;
use crate::load::{self, Counts, Record, Report};

/// A folder that is removed at the end of its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("meridian-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    /// Writes the report of a run of nine seconds with a request each 30 ms.
    fn run(&self, name: &str, clients: u32, ttft_ms: impl Fn(f64) -> f64) -> PathBuf {
        let mut rng = Rng::new(name.len() as u64);
        let request = |at: usize| {
            let ttft = ttft_ms(rng.unit());
            Record {
                sent_ms: at as f64 * 30.0,
                ttft_ms: Some(ttft),
                e2e_ms: ttft + 100.0,
                error: None,
                aborted: false,
                forwarded: false,
                prompt_tokens: 100,
                cached_tokens: Some(40),
                reply_tokens: 11,
            }
        };
        let requests: Vec<Record> = (0..300).map(request).collect();
        let ok = requests.len() as u64;
        let report = Report {
            rows: vec![load::Row { throughput_rps: Some(300.0 / 9.2), ..load::Row::default() }],
            options: load::Options {
                arrivals: load::Arrivals::Closed { clients },
                slo: Some("ttft=50ms".parse().unwrap()),
                ..load::Options::default()
            },
            window_s: 9.2,
            counts: Counts { sent: ok, ok, ..Counts::default() },
            requests,
            ..Report::blank()
        };
        let file = self.0.join(format!("{name}.json"));
        std::fs::write(&file, load::json(&report).unwrap()).unwrap();
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn compared(a: &[&PathBuf], b: &[&PathBuf], any_workload: bool) -> anyhow::Result<Comparison> {
    let files = |side: &[&PathBuf]| side.iter().map(|file| (*file).clone()).collect();
    compare(&Options { a: files(a), b: files(b), any_workload })
}

fn row<'a>(of: &'a Comparison, metric: &str) -> &'a Row {
    of.rows.iter().find(|row| row.metric == metric).unwrap()
}

// TTFT that is twice as long is worse by all its figures, with an interval that holds the true
// ratio; throughput and TPOT are the same, and level.
#[test]
fn differences_are_found() {
    let folder = Folder::new("compare-differs");
    let a = folder.run("fast", 8, |u| 20.0 + 20.0 * u);
    let b = folder.run("slow by half", 8, |u| 40.0 + 40.0 * u);
    let found = compared(&[&a], &[&b], false).unwrap();
    for metric in ["TTFT, mean", "TTFT, p50", "TTFT, p90", "TTFT, p99", "goodput"] {
        assert_eq!(row(&found, metric).verdict, Verdict::Worse, "{metric}");
    }
    for metric in ["throughput", "TPOT, p50", "failed", "cached"] {
        assert_eq!(row(&found, metric).verdict, Verdict::Level, "{metric}");
    }
    let ratio = row(&found, "TTFT, mean").ratio.unwrap();
    assert!(ratio.low < 2.0 && 2.0 < ratio.high && ratio.high < 2.2, "{ratio:?}");
    let back = compared(&[&b], &[&a], false).unwrap();
    assert_eq!(row(&back, "TTFT, p50").verdict, Verdict::Better);
    assert!((row(&found, "throughput").a - 300.0 / 9.2).abs() < 1e-9);
    assert_eq!((found.requests, found.runs), ([300, 300], [1, 1]));
}

// Two runs that differ by chance only are level, and the same files give the same intervals.
#[test]
fn chance_is_level() {
    let folder = Folder::new("compare-level");
    let a = folder.run("one", 8, |u| 20.0 + 20.0 * u);
    let b = folder.run("three", 8, |u| 20.0 + 20.0 * u);
    let found = compared(&[&a], &[&b], false).unwrap();
    let rows = found.rows.iter().filter(|row| row.metric.starts_with("TTFT"));
    let apart = rows.filter(|row| row.verdict != Verdict::Level).count();
    assert_eq!(apart, 0, "{}", render(&found));
    let again = compared(&[&a], &[&b], false).unwrap();
    assert_eq!(render(&found), render(&again));
    assert!(render(&found).contains("does not show how runs differ"));
}

// Sets of runs show how far runs of one side are apart: two slow runs and two fast ones on both
// sides are level, with a wide interval.
#[test]
fn sets_of_runs() {
    let folder = Folder::new("compare-sets");
    let run = |name: &str, base: f64| folder.run(name, 8, move |u| base + u);
    let (a1, a2) = (run("a1", 20.0), run("a22", 40.0));
    let (b1, b2) = (run("b333", 22.0), run("b4444", 44.0));
    let found = compared(&[&a1, &a2], &[&b1, &b2], false).unwrap();
    let mean = row(&found, "TTFT, mean");
    assert_eq!((mean.verdict, found.runs), (Verdict::Level, [2, 2]));
    assert!(mean.difference.low < -15.0 && mean.difference.high > 15.0, "{mean:?}");
    assert!(!render(&found).contains("does not show how runs differ"));
}

// Other workloads are refused unless the user wants them, with the part that differs.
#[test]
fn workloads_must_agree() {
    let folder = Folder::new("compare-workloads");
    let (a, b) = (folder.run("a", 8, |_| 20.0), folder.run("bb", 9, |_| 20.0));
    let error = compared(&[&a], &[&b], false).err().unwrap().to_string();
    assert!(error.contains("arrivals is Closed { clients: 8 }"), "{error}");
    assert!(error.contains("--any-workload"), "{error}");
    assert!(compared(&[&a], &[&b], true).is_ok());
}

// A file that is missing, or not of a run, is reported by its name.
#[test]
fn bad_files_are_reported() {
    let folder = Folder::new("compare-files");
    let good = folder.run("good", 8, |_| 20.0);
    let none = folder.0.join("none.json");
    let error = format!("{:#}", compared(&[&good], &[&none], false).err().unwrap());
    assert!(error.contains("cannot read") && error.contains("none.json"), "{error}");
    std::fs::write(&none, "{\"bench\":\"sweep\"}").unwrap();
    let error = format!("{:#}", compared(&[&good], &[&none], false).err().unwrap());
    assert!(error.contains("is not the report of a run"), "{error}");
    let text = std::fs::read_to_string(&good).unwrap();
    let head = text.split(",\n  \"requests\"").next().unwrap();
    std::fs::write(&none, format!("{head}\n}}")).unwrap();
    let error = format!("{:#}", compared(&[&good], &[&none], false).err().unwrap());
    assert!(error.contains("measure again"), "{error}");
}

// CSV has a row a metric, all of them as long as the header; the plots are drawn.
#[test]
fn forms() {
    let folder = Folder::new("compare-forms");
    let (a, b) = (folder.run("a", 8, |u| 20.0 + u), folder.run("bb", 8, |u| 30.0 + u));
    let found = compared(&[&a], &[&b], false).unwrap();
    let csv = csv(&found);
    assert_eq!(csv.lines().count(), found.rows.len() + 1);
    assert!(svg(&found).unwrap().contains("bb over a"));
    let json: serde_json::Value = serde_json::from_str(&json(&found).unwrap()).unwrap();
    assert_eq!(json["rows"][3]["verdict"], "worse");
}
