//! Tests sweeps against an endpoint that misbehaves on purpose.

use std::sync::Arc;
use std::time::Duration;

use meridian_tools::load::{Live, Workload};
use meridian_tools::sweep::{Ended, Options, Step, Sweep, Watch};
use meridian_tools::{load, sweep};
use tokio::sync::Notify;

use crate::support::{Act, Endpoint};

fn options(endpoint: &Endpoint, rates: &[f64]) -> Options {
    Options {
        load: load::Options {
            url: endpoint.url.clone(),
            workload: Workload { turns: 1, system_bytes: 64, ..Workload::default() },
            // A long TTFT also allows this process to be late: tests share their machine.
            slo: Some("ttft=60s".parse().unwrap()),
            tick: Duration::from_millis(10),
            ..load::Options::default()
        },
        rates: rates.to_vec(),
        from: 50.0,
        most: 100.0,
        precision: 0.1,
        warmup: Duration::ZERO,
        window: Duration::from_millis(400),
        rounds: 1,
    }
}

async fn sweep(options: Options, watch: Option<Watch>) -> Sweep {
    sweep::run(options, watch, std::future::pending()).await.unwrap()
}

/// Calls `act` when the second window has started.
fn at_the_second(act: impl Fn() + Send + Sync + 'static) -> Option<Watch> {
    Some(Arc::new(move |step: &Step, _: &Live| {
        if step.done == 1 {
            act();
        }
    }))
}

// An endpoint that answers nothing from the second rate on ends the sweep there: the first rate
// stays, with the rates that were met, and refusals are counted by their kind.
#[tokio::test]
async fn an_endpoint_goes_down_halfway() {
    for (status, kind) in [(503, "http_503"), (429, "http_429")] {
        let endpoint = Endpoint::start(&[], Act::Answer).await;
        let change = endpoint.clone();
        let watch = at_the_second(move || change.then(Act::Status(status)));
        let found = sweep(options(&endpoint, &[60.0, 120.0, 180.0]), watch).await;
        assert_eq!(found.ended, Some(Ended::Dead));
        let point = serde_json::to_value(found.points.last()).unwrap();
        assert_eq!(point[kind], point["sent"], "{point}");
        assert_eq!((&point["ok"], &point["attainment"]), (&0.into(), &0.0.into()));
        assert_eq!(found.found.map(|found| found.rate), Some(60.0));
        assert!(sweep::render(&found).contains("Ended at 1"), "{}", sweep::render(&found));
    }
}

// A window in which only some requests fail counts these as outside of the objective.
#[tokio::test]
async fn failures_miss_the_objective() {
    let endpoint = Endpoint::start(&[], Act::Answer).await;
    let change = endpoint.clone();
    let watch = at_the_second(move || change.then(Act::Status(503)));
    let found = sweep(options(&endpoint, &[100.0, 200.0]), watch).await;
    let second = &found.points[1];
    assert!(second.http_503 > 0 && !second.met, "{second:?}");
    assert_eq!(second.ok + second.http_503, second.sent);
    assert!((second.attainment - second.ok as f64 / second.sent as f64).abs() < 1e-9);
    assert_eq!(found.found.map(|found| found.rate), Some(100.0));
}

// Stopped in its second window, a sweep has the first one.
#[tokio::test]
async fn stopping_leaves_whole_windows() {
    let endpoint = Endpoint::start(&[], Act::Answer).await;
    let stop = Arc::new(Notify::new());
    let second = stop.clone();
    let watch = at_the_second(move || second.notify_one());
    let options = options(&endpoint, &[60.0, 120.0]);
    let found = sweep::run(options, watch, stop.notified()).await.unwrap();
    assert_eq!((found.ended.clone(), found.points.len()), (Some(Ended::Stopped), 1));
    assert!(sweep::render(&found).contains("Stopped"));
    assert_eq!(sweep::csv(&found).lines().count(), 2);
}

// A search that no rate limits ends at its highest rate; its windows send prompts of their own.
#[tokio::test]
async fn searches_to_the_highest_rate() {
    let endpoint = Endpoint::start(&[], Act::Answer).await;
    let found = sweep(options(&endpoint, &[]), None).await;
    let rates: Vec<f64> = found.points.iter().map(|point| point.rate).collect();
    assert_eq!((rates, found.maxima.clone()), (vec![50.0, 100.0, 100.0], vec![100.0]));
    let question = |body: &serde_json::Value| body["messages"][1]["content"].to_string();
    let mut questions: Vec<String> = endpoint.bodies().iter().map(question).collect();
    let sent = questions.len();
    questions.sort();
    questions.dedup();
    assert_eq!(questions.len(), sent, "a prompt was sent twice");
    sweep::svg(&found).unwrap();
}

// More open programs than the client may have are a rate that is not carried.
#[tokio::test]
async fn shed_programs_miss_the_objective() {
    let endpoint = Endpoint::start(&[Act::Answer; 3], Act::Silence).await;
    let mut options = options(&endpoint, &[100.0]);
    options.load.max_programs = 2;
    options.load.timeout = Duration::from_millis(600);
    let found = sweep(options, None).await;
    assert!(!found.points[0].met, "{:?}", found.points);
}
