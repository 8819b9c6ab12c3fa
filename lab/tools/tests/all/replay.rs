//! Tests replays against an endpoint that records its requests.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use meridian_base::Time;
use meridian_tools::load::{Report, Slo};
use meridian_tools::replay::Options;
use meridian_tools::{load, replay};
use meridian_workload::trace::TraceRequest;
use serde_json::Value;

use crate::support::{Act, Endpoint};

fn request(ms: u64, tokens: u32, ids: &[u64], session: u64) -> TraceRequest {
    TraceRequest {
        block_tokens: 64,
        hash_ids: ids.to_vec(),
        session: Some(session),
        ..TraceRequest::new(Time::from_millis(ms), tokens, 7)
    }
}

/// Two turns of a session, and another session that shares the first block.
fn requests() -> Vec<TraceRequest> {
    vec![request(0, 130, &[1, 2], 1), request(30, 140, &[1, 5], 2), request(60, 200, &[1, 2, 3], 1)]
}

async fn replay(endpoint: &Endpoint, change: impl FnOnce(&mut Options)) -> anyhow::Result<Report> {
    let mut options = Options {
        load: load::Options {
            url: endpoint.url.clone(),
            ignore_eos: true,
            timeout: Duration::from_secs(10),
            ..load::Options::default()
        },
        requests: requests(),
        speed: 1.0,
        chained: false,
        bytes_per_token: Some(4.0),
        keys: BTreeMap::new(),
        fleet: None,
    };
    change(&mut options);
    replay::run(options, None, std::future::pending()).await
}

fn text(body: &Value) -> &str {
    assert_eq!(body["messages"].as_array().unwrap().len(), 1);
    body["messages"][0]["content"].as_str().unwrap()
}

// Prompts have the recorded tokens and share the recorded blocks, each as one message; replies have
// the recorded length; a session keeps its key.
#[tokio::test]
async fn prompts_are_like_the_recorded_ones() {
    let endpoint = Endpoint::start(&[], Act::Answer).await;
    let report = replay(&endpoint, |_| ()).await.unwrap();
    assert_eq!((report.counts.sent, report.counts.ok), (3, 3));
    let bodies = endpoint.bodies();
    let texts: Vec<&str> = bodies.iter().map(text).collect();
    let lengths: Vec<usize> = texts.iter().map(|text| text.len()).collect();
    assert_eq!(lengths, [520, 560, 800]);
    let shared = |a: usize, b: usize| {
        texts[a].bytes().zip(texts[b].bytes()).take_while(|(a, b)| a == b).count()
    };
    assert!((256..270).contains(&shared(0, 1)), "{}", shared(0, 1));
    assert_eq!(shared(0, 2), 520);
    assert!(bodies.iter().all(|body| body["max_tokens"] == 7 && body["ignore_eos"] == true));
    let sessions = endpoint.sessions();
    assert!(sessions[0] == sessions[2] && sessions[0] != sessions[1]);
    assert_eq!(report.rows[0].workload, "replay");
}

// Without a given size, tokens are measured with two prompts. This endpoint counts 100 tokens
// whatever it gets, which is no measure, so four bytes stay.
#[tokio::test]
async fn tokens_are_measured_first() {
    let endpoint = Endpoint::start(&[], Act::Answer).await;
    let report = replay(&endpoint, |options| options.bytes_per_token = None).await.unwrap();
    let lengths: Vec<usize> = endpoint.bodies().iter().map(|body| text(body).len()).collect();
    assert_eq!(lengths, [1000, 9000, 520, 560, 800]);
    assert_eq!(report.counts.sent, 3);
}

// A model that the endpoint serves is kept, another one becomes its first; one that was asked for
// replaces both.
#[tokio::test]
async fn models_are_kept() {
    let endpoint = Endpoint::start(&[], Act::Answer).await;
    let with_models = |options: &mut Options| {
        options.requests[0].model = Some("b".into());
        options.requests[1].model = Some("unknown".into());
    };
    replay(&endpoint, with_models).await.unwrap();
    let models = || -> Vec<String> {
        endpoint.bodies().iter().map(|body| body["model"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(models(), ["b", "first", "first"]);
    let one = |options: &mut Options| {
        with_models(options);
        options.load.model = Some("b".to_owned());
    };
    replay(&endpoint, one).await.unwrap();
    assert_eq!(models()[3..], ["b", "b", "b"]);
}

// Refused requests are counted by kind, and as missing the objective; later turns are sent
// regardless, since their prompts are recorded.
#[tokio::test]
async fn refusals_are_counted_apart() {
    let endpoint = Endpoint::start(&[Act::Status(429), Act::Status(503)], Act::Answer).await;
    let slo: Slo = "e2e=60s".parse().unwrap();
    let report = replay(&endpoint, |options| {
        options.chained = true;
        options.load.slo = Some(slo);
    });
    let report = report.await.unwrap();
    let kinds: BTreeSet<&str> =
        report.errors.iter().filter(|(_, n)| **n == 1).map(|(kind, _)| kind.name()).collect();
    assert_eq!(kinds, ["http_429", "http_503"].into());
    assert_eq!((report.counts.sent, report.counts.ok), (3, 1));
    let attained = report.rows[0].slo_attainment.unwrap();
    assert!((attained - 1.0 / 3.0).abs() < 1e-9, "{attained}");
}
