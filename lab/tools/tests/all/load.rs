//! Tests the load generator against an endpoint that misbehaves on purpose: every count is exact.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use meridian_protocol::policy::{Policy, Scalar};
use meridian_tools::load::{
    Arrivals, ErrorKind, Options, Place, Record, Report, Site, Workload, run,
};

use crate::support::{Act, Endpoint};

fn options(endpoint: &Endpoint, clients: u32, turns: u32) -> Options {
    Options {
        url: endpoint.url.clone(),
        workload: Workload { turns, system_bytes: 64, ..Workload::default() },
        arrivals: Arrivals::Closed { clients },
        ..Options::default()
    }
}

async fn load(options: Options) -> Report {
    run(options, None, std::future::pending()).await.unwrap()
}

/// The errors that happened, by name.
fn errors(report: &Report) -> BTreeMap<&'static str, u64> {
    report.errors.iter().filter(|(_, n)| **n > 0).map(|(kind, n)| (kind.name(), *n)).collect()
}

// A run without trouble: 4 clients, 10 sessions of 3 turns are 30 requests, and every number of
// the report follows from that.
#[tokio::test]
async fn exact_counts() {
    let endpoint = Endpoint::start(&[], Act::Answer).await;
    let report = load(Options { programs: Some(10), ..options(&endpoint, 4, 3) }).await;
    let c = report.counts;
    assert_eq!((c.sent, c.ok, c.errors, c.aborted, c.programs), (30, 30, 0, 0, 10));
    assert_eq!((c.output_tokens, c.prompt_tokens, c.cached_tokens), (90, 3000, 1200));
    assert_eq!(c.cached_share(), Some(0.4));
    assert_eq!(report.model, "first");
    let split: Vec<_> = report.replicas.iter().map(|(k, v)| (k.as_str(), v.requests)).collect();
    assert_eq!(split, [("even", 15), ("odd", 15)]);
    let row = &report.rows[0];
    assert!(row.ttft_ms.is_some() && row.tpot_ms.is_some() && row.e2e_ms.is_some());
    assert_eq!((row.lost, row.goodput_rps, row.prefix_hit_ratio), (Some(0), None, Some(0.4)));
    assert!(report.all_well());
}

// Each kind of failure is counted under its own name, once.
#[tokio::test]
async fn errors_by_kind() {
    let script = [
        Act::Status(429),
        Act::Status(503),
        Act::Status(500),
        Act::Status(400),
        Act::Break,
        Act::EndEarly,
        Act::ErrorEvent,
        Act::Nonsense,
        Act::Silence,
        Act::Answer,
    ];
    let endpoint = Endpoint::start(&script, Act::Answer).await;
    let timeout = Duration::from_millis(200);
    let report = load(Options { programs: Some(10), timeout, ..options(&endpoint, 1, 1) }).await;
    let want = [
        ("bad_json", 1),
        ("broken_stream", 2),
        ("error_event", 1),
        ("http_429", 1),
        ("http_4xx", 1),
        ("http_503", 1),
        ("http_5xx", 1),
        ("timeout", 1),
    ];
    assert_eq!(errors(&report), want.into());
    assert_eq!((report.counts.sent, report.counts.ok, report.counts.errors), (10, 1, 9));
    assert_eq!(report.errors.len(), ErrorKind::ALL.len(), "every kind is named");
}

// No listener: connect errors, counted exactly, without a panic.
#[tokio::test]
async fn without_a_listener() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", taken.local_addr().unwrap());
    drop(taken);
    let model = Some("m".to_owned());
    let report = load(Options { url, model, requests: Some(3), ..Options::default() }).await;
    assert_eq!(errors(&report), [("connect", 3)].into());
}

// If an endpoint does not listen, or breaks the connection before an answer starts, the request
// goes to the next endpoint and is counted once; after any answer, even an error, it is not retried
// elsewhere.
#[tokio::test]
async fn asked_elsewhere() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dead = format!("http://{}", taken.local_addr().unwrap());
    drop(taken);
    let slams = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let slammed = format!("http://{}", slams.local_addr().unwrap());
    tokio::spawn(async move { while slams.accept().await.is_ok() {} });
    let good = Endpoint::start(&[], Act::Answer).await;
    let at_good = options(&good, 1, 2);
    let (url, model) = (dead, Some("m".to_owned()));
    let elsewhere = vec![slammed, at_good.url.clone()];
    let report = load(Options { url, model, elsewhere, programs: Some(2), ..at_good }).await;
    assert_eq!((report.counts.sent, report.counts.ok, report.counts.moved), (4, 4, 8));

    let bad = Endpoint::start(&[], Act::Status(500)).await;
    let elsewhere = vec![options(&good, 1, 2).url];
    let report = load(Options { elsewhere, programs: Some(1), ..options(&bad, 1, 2) }).await;
    assert_eq!((report.counts.ok, report.counts.moved), (0, 0));
    assert_eq!(errors(&report), [("http_5xx", 1)].into());
}

// A failed turn ends its session: later turns are not sent, and are counted as such.
#[tokio::test]
async fn a_failed_turn_ends_its_session() {
    let endpoint = Endpoint::start(&[Act::Answer, Act::Status(500)], Act::Answer).await;
    let report = load(Options { programs: Some(1), ..options(&endpoint, 1, 8) }).await;
    assert_eq!((report.counts.sent, report.counts.ok, report.counts.lost_below), (2, 1, 6));
}

// A disconnecting client is not an error, and is counted separately.
#[tokio::test]
async fn clients_hang_up() {
    let endpoint = Endpoint::start(&[], Act::Silence).await;
    let report = load(Options {
        programs: Some(6),
        abort_share: 1.0,
        abort_within: Duration::from_millis(20),
        ..options(&endpoint, 2, 1)
    })
    .await;
    assert_eq!((report.counts.sent, report.counts.aborted, report.counts.errors), (6, 6, 0));
}

// The seed determines which clients disconnect: two runs agree, and the share is near the requested
// one.
#[tokio::test]
async fn aborts_follow_from_the_seed() {
    let mut aborted = BTreeSet::new();
    for _ in 0..2 {
        let endpoint = Endpoint::start(&[], Act::Silence).await;
        let report = load(Options {
            programs: Some(200),
            abort_share: 0.5,
            abort_within: Duration::ZERO,
            timeout: Duration::from_millis(50),
            ..options(&endpoint, 50, 1)
        })
        .await;
        assert_eq!(report.counts.aborted + report.errors_of(ErrorKind::Timeout), 200);
        aborted.insert(report.counts.aborted);
    }
    assert_eq!(aborted.len(), 1, "{aborted:?}");
    assert!((80..=120).contains(aborted.first().unwrap()), "{aborted:?}");
}

// A stopped run sends nothing more, waits for requests in flight no longer than the drain, and
// counts those it cuts off.
#[tokio::test]
async fn stopping_cuts_off_what_hangs() {
    let endpoint = Endpoint::start(&[Act::Answer], Act::Silence).await;
    let options = Options { drain: Duration::from_millis(50), ..options(&endpoint, 1, 8) };
    let seen = endpoint.clone();
    let stop = async move {
        while seen.bodies().len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    let report = run(options, None, stop).await.unwrap();
    assert_eq!((report.counts.sent, report.counts.ok), (2, 1));
    assert_eq!(errors(&report), [("cancelled", 1)].into());
    assert_eq!(report.rows[0].lost, Some(0));
    let ends: Vec<_> = report.requests.iter().map(|request| request.error).collect();
    assert_eq!(ends, [None, Some(ErrorKind::Cancelled)], "a comparison counts it as failed");
}

// Each turn's prompt starts with the previous turn's, word for word, followed by the reply: lost
// text would make all policies look the same. The session's key is sent too.
#[tokio::test]
async fn turns_grow_from_replies() {
    for stream in [true, false] {
        let endpoint = Endpoint::start(&[], Act::Answer).await;
        let report = load(Options { programs: Some(1), stream, ..options(&endpoint, 1, 3) }).await;
        assert_eq!(report.counts.ok, 3);
        let bodies = endpoint.bodies();
        for (n, pair) in bodies.windows(2).enumerate() {
            let [before, after] = [&pair[0], &pair[1]].map(|b| b["messages"].as_array().unwrap());
            assert_eq!(before[..], after[..before.len()]);
            assert_eq!(after[before.len()]["content"], format!("one two {n}"));
            assert_eq!(after[before.len()]["role"], "assistant");
        }
        let sessions: BTreeSet<String> = endpoint.sessions().into_iter().collect();
        assert_eq!((endpoint.sessions().len(), sessions.len()), (3, 1));
        assert_eq!(report.rows[0].ttft_ms.is_some(), stream, "no first token without a stream");
    }
}

// A limit on requests is exact, also with many clients.
#[tokio::test]
async fn requests_are_bounded() {
    let endpoint = Endpoint::start(&[], Act::Answer).await;
    let report = load(Options { requests: Some(17), ..options(&endpoint, 5, 4) }).await;
    assert_eq!((report.counts.sent, endpoint.bodies().len()), (17, 17));
}

// An open loop starts every program that is due, reports its own lateness, and sheds programs
// beyond its limit.
#[tokio::test]
async fn open_loops() {
    let endpoint = Endpoint::start(&[], Act::Answer).await;
    let open = Options {
        arrivals: Arrivals::Programs { per_second: 2000.0 },
        programs: Some(50),
        ..options(&endpoint, 1, 2)
    };
    let report = load(open.clone()).await;
    assert_eq!((report.counts.programs, report.counts.ok), (50, 100));
    assert!(report.lateness_ms.is_some());

    let silent = Endpoint::start(&[], Act::Silence).await;
    let timeout = Duration::from_millis(300);
    let url = silent.url.clone();
    let report = load(Options { url, timeout, max_programs: 10, ..open }).await;
    let c = report.counts;
    assert_eq!(c.programs + c.shed, 50);
    assert!(c.shed > 0 && c.programs >= 10);
}

// The warm-up is counted but not measured.
#[tokio::test]
async fn warm_up() {
    let endpoint = Endpoint::start(&[], Act::Answer).await;
    let warmup = Duration::from_secs(3600);
    let report = load(Options { programs: Some(4), warmup, ..options(&endpoint, 2, 2) }).await;
    assert_eq!(report.counts.ok, 8);
    assert_eq!(report.rows[0].ttft_ms, None);
}

// The client's counts agree with a gateway that counts correctly, including failures, and disagree
// with one that loses a request.
#[tokio::test]
async fn the_gateways_counts() {
    let endpoint = Endpoint::start(&[Act::Status(503)], Act::Answer).await;
    let check_gateway = Some(endpoint.url.clone());
    let settle = Duration::from_millis(200);
    let options = Options { programs: Some(5), check_gateway, settle, ..options(&endpoint, 2, 2) };
    let report = load(options.clone()).await;
    let check = report.gateway.expect("a check was asked for");
    assert!(check.agrees(), "{check:?}");
    let done = check.rows.iter().find(|r| r.name == "done").unwrap();
    assert_eq!((done.least, done.most, done.gateway), (8, 8, 8));
    endpoint.lose(1);
    let check = load(options).await.gateway.expect("a check was asked for");
    let wrong: Vec<&str> =
        check.rows.iter().filter(|r| !r.agrees()).map(|r| r.name.as_str()).collect();
    assert_eq!(wrong, ["done"]);
}

// The report's row has exactly the fields of every experiment's results, and reads back.
#[tokio::test]
async fn the_report_is_json() {
    let endpoint = Endpoint::start(&[], Act::Answer).await;
    let slo = Some("ttft=60s".parse().unwrap());
    let report = load(Options { programs: Some(2), slo, ..options(&endpoint, 1, 1) }).await;
    assert_eq!(report.rows[0].slo_attainment, Some(1.0));
    let json = serde_json::to_value(&report).unwrap();
    let mut fields: Vec<&str> =
        json["rows"][0].as_object().unwrap().keys().map(String::as_str).collect();
    fields.sort_unstable();
    let mut want: Vec<&str> = "system workload topology admission throughput_rps output_tps \
        goodput_rps ttft_ms e2e_ms tpot_ms prefix_hit_ratio outstanding_spread forwarded_ratio \
        forwarded_worse_ratio slo_attainment cct_ms earliness_ms usd_per_hour lost violations"
        .split_whitespace()
        .collect();
    want.sort_unstable();
    assert_eq!(fields, want);
    let back: Report = serde_json::from_value(json).unwrap();
    assert_eq!((back.counts, back.rows), (report.counts, report.rows));
}

// Options that would measure nothing are refused, with the field and the remedy.
#[tokio::test]
async fn bad_options_are_refused() {
    let endpoint = Endpoint::start(&[], Act::Answer).await;
    let good = options(&endpoint, 1, 1);
    let unknown = Workload { name: "nope".into(), ..Workload::default() };
    let bad = [
        (Options { abort_share: 2.0, ..good.clone() }, "abort_share is 2"),
        (options(&endpoint, 0, 1), "clients is 0"),
        (options(&endpoint, 1, 0), "turns is 0"),
        (Options { workload: unknown, ..good.clone() }, "sessions, tree2, tree4, chat, mixed"),
        (Options { url: "localhost:80".into(), model: Some("m".into()), ..good }, "http://"),
    ];
    for (options, say) in bad {
        let error = run(options, None, std::future::pending()).await.unwrap_err();
        assert!(format!("{error:#}").contains(say), "{error:#}");
    }
}

// Two clients, each near one of two gateways, use the near one; when one is gone, its clients go to
// the next nearest and lose nothing.
#[tokio::test]
async fn clients_ask_the_nearest_gateway() {
    let (west, east) =
        (Endpoint::start(&[], Act::Answer).await, Endpoint::start(&[], Act::Answer).await);
    let place = |longitude| Place { latitude: 10.0, longitude };
    let site = |longitude, url: &str| Site { place: place(longitude), url: url.to_owned() };
    let placed = |sites: Vec<Site>| Options {
        sites,
        places: vec![place(-100.0), place(100.0)],
        programs: Some(10),
        ..options(&west, 2, 1)
    };
    let sites = vec![site(90.0, &east.url), site(-90.0, &west.url)];
    let report = load(placed(sites)).await;
    assert_eq!((report.counts.ok, report.counts.moved), (10, 0));
    assert_eq!((west.bodies().len(), east.bodies().len()), (5, 5));
    let gone = vec![site(90.0, "http://127.0.0.1:1"), site(-90.0, &west.url)];
    let report = load(placed(gone)).await;
    assert_eq!((report.counts.ok, report.counts.moved), (10, 5));
    assert_eq!(west.bodies().len(), 15);
}

// There is a line for each finished request, answered or not, without any text; together they match
// the report's counts.
#[tokio::test]
async fn records_of_all_requests() {
    let script = [Act::Answer, Act::Status(429)];
    let endpoint = Endpoint::start(&script, Act::Answer).await;
    let path = std::env::temp_dir().join(format!("meridian-records-{}", std::process::id()));
    let records = Some(path.clone());
    let report = load(Options { programs: Some(4), records, ..options(&endpoint, 1, 2) }).await;
    let records = Record::read(&path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(records.len() as u64, report.counts.sent);
    let whole: Vec<&Record> = records.iter().filter(|record| record.error.is_none()).collect();
    assert_eq!(whole.len() as u64, report.counts.ok);
    assert_eq!(records.iter().filter(|r| r.error == Some(ErrorKind::Http429)).count(), 1);
    assert_eq!(whole.iter().map(|r| r.reply_tokens).sum::<u64>(), report.counts.output_tokens);
    assert_eq!(whole.iter().map(|r| r.prompt_tokens).sum::<u64>(), report.counts.prompt_tokens);
    assert!(whole.iter().all(|r| r.ttft_ms.is_some_and(|ttft| ttft <= r.e2e_ms)));
    assert!(records.windows(2).all(|pair| pair[0].sent_ms <= pair[1].sent_ms));
    assert!(!text.contains("content") && !text.contains("role"), "{text}");
    let nowhere = Options { records: Some("/nowhere/x".into()), ..options(&endpoint, 1, 1) };
    let error = run(nowhere, None, std::future::pending()).await.unwrap_err();
    assert!(format!("{error:#}").contains("records: cannot write /nowhere/x"), "{error:#}");
}

// Endpoints that share the sessions: all requests of a session go to one of them, and both get
// some.
#[tokio::test]
async fn sessions_are_shared_out() {
    let (one, two) =
        (Endpoint::start(&[], Act::Answer).await, Endpoint::start(&[], Act::Answer).await);
    let also = vec![two.url.clone()];
    let report = load(Options { programs: Some(16), also, ..options(&one, 4, 2) }).await;
    assert_eq!((report.counts.sent, report.counts.ok), (32, 32));
    let sessions =
        |endpoint: &Endpoint| -> BTreeSet<String> { endpoint.sessions().into_iter().collect() };
    let (at_one, at_two) = (sessions(&one), sessions(&two));
    assert_eq!(at_one.len() + at_two.len(), 16);
    assert!(at_one.is_disjoint(&at_two) && !at_one.is_empty() && !at_two.is_empty());
}

// A generator of the experiments is found by its name; an invalid name or knob is reported.
#[test]
fn generators_by_name() {
    let named = |name: &str, knob: &str| Workload {
        generator: Some(Policy {
            name: name.to_owned(),
            params: [(knob.to_owned(), Scalar::Number(1.0))].into(),
        }),
        ..Workload::default()
    };
    assert!(named("wildchat", "think_s").generator().is_ok());
    for (name, knob, part) in [("wildcat", "think_s", "use one of"), ("wildchat", "x", "\"x\"")] {
        let error = named(name, knob).generator().err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    }
}
