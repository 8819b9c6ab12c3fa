//! `meridian bench sweep`, `replay` and `compare` against model engines as processes, and `streams`.

use std::io::BufReader;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use meridian_workload::trace::{Format, Outcome, ReadOptions, Reader, TraceRequest};
use serde_json::Value;

use crate::process::{Folder, Process};

/// An engine that is a hundred times as fast as the modelled one.
fn engine() -> Process {
    let args = ["engine", "--model", "llama-3.1-8b", "--gpu", "h100", "--time-scale", "100"];
    Process::start(&args)
}

/// Runs `meridian bench` with these words, and further arguments.
fn bench(words: &str, more: &[&str]) -> Output {
    let mut command = Command::new(crate::programs::MERIDIAN);
    command.env_remove("OPENAI_API_KEY").arg("bench").args(words.split_whitespace()).args(more);
    command.output().expect("the binary runs")
}

fn good(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The error of a run that fails.
fn bad(output: &Output) -> String {
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(file: &str) -> Value {
    let text = std::fs::read_to_string(file).expect("it was written");
    serde_json::from_str(&text).expect("it is JSON")
}

const SHORT: &str = "--turns 1 --max-tokens 4 --system-bytes 640";

// Two rates far below an engine's capacity meet a lenient objective, and none meets one that is
// below the time of any request; every form has a row or a line for each window. Without a terminal
// there is no progress.
#[test]
fn sweeps() {
    let (engine, folder) = (engine(), Folder::new("sweep"));
    let url = format!("--url http://{}", engine.address);
    let [out, csv, svg] = ["s.json", "s.csv", "s.svg"].map(|name| folder.path(name));
    let files = ["--json", &out, "--csv", &csv, "--svg", &svg];
    let windows = format!("--warmup 100ms --window 1s --rounds 1 {SHORT}");
    let done = bench(&format!("sweep {url} --slo ttft=60s --rates 10,20 {windows}"), &files);
    let text = good(&done);
    assert!(text.contains("20 requests/s within TTFT <= 60s, 95 % of the requests"), "{text}");
    // The estimate of its length.
    assert_eq!(String::from_utf8_lossy(&done.stderr).lines().count(), 1);
    let report = json(&out);
    assert_eq!(report["found"]["rate"], 20.0);
    assert_eq!(report["found"]["met"], true);
    let points = report["points"].as_array().expect("a list");
    assert_eq!(points.len(), 2);
    assert!(points.iter().all(|p| p["attainment"] == 1.0 && p["ok"].as_u64() > Some(0)));
    let csv = std::fs::read_to_string(csv).expect("it was written");
    assert_eq!(csv.lines().count(), 3, "{csv}");
    assert!(std::fs::read_to_string(svg).expect("it was written").starts_with("<svg "));
    let done = bench(&format!("sweep {url} --slo ttft=0.001ms --rates 20 {windows}"), &[]);
    assert!(good(&done).contains("No rate met the objective"));
}

// A search ends at its highest rate if that meets the objective, and measures it again.
#[test]
fn searches() {
    let (engine, folder) = (engine(), Folder::new("search"));
    let out = folder.path("s.json");
    let words = format!(
        "sweep --url http://{} --slo ttft=60s --from 8 --most 16 --warmup 0s --window 1s --rounds 1 \
         {SHORT} --json {out}",
        engine.address
    );
    let text = good(&bench(&words, &[]));
    assert!(text.contains("16 requests/s within") && text.contains("fresh windows"), "{text}");
    let report = json(&out);
    let points = report["points"].as_array().expect("a list");
    let rates: Vec<Option<f64>> = points.iter().map(|point| point["rate"].as_f64()).collect();
    assert_eq!(rates, [8.0, 16.0, 16.0].map(Some));
    assert_eq!(report["maxima"][0], 16.0);
}

// Objectives and rates that say nothing are refused before any request.
#[test]
fn bad_sweeps_are_refused() {
    for (words, part) in [
        ("sweep --url http://127.0.0.1:9 --slo share=0.9", "needs a limit"),
        ("sweep --url http://127.0.0.1:9 --slo ttft=1s,share=95", "above 0 and at most 1"),
        ("sweep --url http://127.0.0.1:9 --slo ttft=1s --rates 4,2", "from low to high"),
        ("sweep --url http://127.0.0.1:9 --slo ttft=1s --from 9 --most 2", "use a lower from"),
        ("sweep --url http://127.0.0.1:9", "--slo"),
        ("sweep --slo ttft=1s --model m", "--url"),
        ("sweep --url http://127.0.0.1:9 --slo ttft=1s --json /nowhere/a.json", "make its folder"),
    ] {
        let error = bad(&bench(words, &[]));
        assert!(error.contains(part), "{words}: {error}");
    }
}

/// A journal as the gateway writes it: three sessions of two tenants, whose prompts share blocks,
/// and a client error.
fn journal(folder: &Folder) -> String {
    let line = |ms: u64, input: u32, ids: &str, tenant: &str, session: &str, outcome: &str| {
        let at = 1_795_688_100_000_u64 + ms;
        format!(
            r#"{{"timestamp":{at},"input_length":{input},"output_length":6,"hash_ids":[{ids}],"tenant":"{tenant}","session":"{session}","outcome":"{outcome}","ttft_ms":50}}"#
        )
    };
    let lines = [
        r#"{"meridian_journal":1,"block_tokens":512}"#.to_owned(),
        line(500, 1600, "1,2,4", "b", "2", "done"),
        line(0, 1300, "1,2", "a", "1", "done"),
        line(900, 1900, "1,2,3", "a", "1", "done"),
        line(1000, 10, "", "a", "9", "client_error"),
        line(1200, 600, "7", "b", "3", "failed"),
    ];
    let path = folder.path("journal.jsonl");
    std::fs::write(&path, lines.join("\n") + "\n").expect("a folder");
    path
}

fn requests(journal: &str) -> Vec<TraceRequest> {
    let file = BufReader::new(std::fs::File::open(journal).expect("it was written"));
    let reader = Reader::new(file, Format::Journal, &ReadOptions::default());
    let mut all: Vec<TraceRequest> = reader.map(|line| line.expect("a good line")).collect();
    all.retain(|request| request.outcome != Some(Outcome::ClientError));
    all.sort_by_key(|request| request.at);
    all
}

/// A gateway with a journal and two tenants before `engine`.
fn gateway(folder: &Folder, engine: &Process, keys: [&str; 2]) -> (Process, String) {
    let journal = folder.path("again.jsonl");
    let hash = |key: &str| {
        let path = folder.path("key");
        std::fs::write(&path, key).expect("a folder");
        let file = std::fs::File::open(path).expect("it was written");
        let output = Command::new(crate::programs::MERIDIAN).arg("tenant-key").stdin(file).output();
        let text = good(&output.expect("the binary runs"));
        text.lines()
            .find_map(|line| line.find("sha256:").map(|at| line[at..].trim().to_owned()))
            .expect("a hash")
    };
    let [a, b] = keys.map(hash);
    let yaml = format!(
        "version: 1\nlisten: 127.0.0.1:0\nadmin: 127.0.0.1:0\nsecret: a test's secret\n\
         limits: {{connections: 64}}\nreplicas: [{{url: 'http://{}'}}]\njournal: {{to: '{journal}'}}\n\
         tenants: [{{name: a, keys: ['{a}']}}, {{name: b, keys: ['{b}']}}]\n",
        engine.address
    );
    let config = folder.path("gateway.yaml");
    std::fs::write(&config, yaml).expect("a folder");
    (Process::start(&["gateway", "-c", &config]), journal)
}

// A journal replayed through a gateway gives a journal of the same requests: lengths of prompts and
// replies, shared blocks, sessions and tenants. Its times count from 1970, and need no option.
#[test]
fn a_replay_is_recorded_as_the_original() {
    let (engine, folder) = (engine(), Folder::new("replay"));
    let original = journal(&folder);
    let keys = ["key-of-tenant-a-0123456789", "key-of-tenant-b-0123456789"];
    let (mut gateway, again) = gateway(&folder, &engine, keys);
    let file = folder.path("keys");
    std::fs::write(&file, format!("# tenants\na={}\nb={}\n", keys[0], keys[1])).expect("a folder");
    let out = folder.path("r.json");
    let words = format!(
        "replay {original} --url http://{} --api-key {} --keys {file} --speed 2 --json {out}",
        gateway.address, keys[0]
    );
    // The replica joins a moment after the gateway listens.
    let until = Instant::now() + Duration::from_secs(30);
    let text = loop {
        let done = bench(&words, &[]);
        if done.status.success() {
            break good(&done);
        }
        assert!(Instant::now() < until, "{}", String::from_utf8_lossy(&done.stderr));
        std::thread::sleep(Duration::from_millis(100));
    };
    gateway.terminate();
    assert!(text.contains("live / recorded"), "{text}");
    let report = json(&out);
    let counts = &report["counts"];
    assert_eq!(
        (&counts["sent"], &counts["ok"], &counts["output_tokens"]),
        (&4.into(), &4.into(), &24.into())
    );
    let sent: Vec<f64> = report["requests"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|r| r["sent_ms"].as_f64())
        .collect();
    assert_eq!(sent.iter().map(|ms| ms.round()).collect::<Vec<_>>(), [0.0, 250.0, 450.0, 600.0]);

    let (before, after) = (requests(&original), requests(&again));
    let after = &after[after.len() - 4..];
    for (one, two) in before.iter().zip(after) {
        let off = two.input_tokens.abs_diff(one.input_tokens);
        assert!(off <= 2, "{} tokens became {}", one.input_tokens, two.input_tokens);
        assert_eq!(two.output_tokens, 6);
    }
    let same = |of: &[TraceRequest], a: usize, b: usize| {
        let shared = of[a].hash_ids.iter().zip(&of[b].hash_ids).take_while(|(a, b)| a == b).count();
        (shared, of[a].session == of[b].session, of[a].tenant == of[b].tenant)
    };
    for (a, b) in [(0, 1), (0, 2), (1, 2), (1, 3), (0, 3)] {
        assert_eq!(same(&before, a, b), same(after, a, b), "{a} and {b}");
    }
}

// With a fleet and no endpoint, the engines and the gateway are started for the replay, and the
// simulator's times are next to the live and the recorded ones.
#[test]
fn a_fleet_is_replayed_live_and_simulated() {
    let folder = Folder::new("replay-fleet");
    let (original, out) = (journal(&folder), folder.path("r.json"));
    let text =
        good(&bench(&format!("replay {original} --fleet 2xllama-3.1-8b@h100 --json {out}"), &[]));
    assert!(text.contains("live / simulated") && text.contains("within 10 %"), "{text}");
    let report = json(&out);
    assert_eq!(report["counts"]["ok"], 4);
    let beside = report["beside"].as_array().expect("a list");
    let names: Vec<_> = beside.iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["recorded", "simulated"]);
    assert!(beside[1]["ttft_ms"]["p50"].as_f64() > Some(0.0));
    assert_eq!(beside[0]["ttft_ms"]["p50"], 50.0);
}

// A trace that cannot be sent is reported with its line, and a tenant without a key by its hash; no
// message shows a key.
#[test]
fn bad_replays_are_refused() {
    let folder = Folder::new("replay-bad");
    let good = journal(&folder);
    let mixed = folder.path("mixed.jsonl");
    let text = std::fs::read_to_string(&good).expect("it was written");
    std::fs::write(&mixed, text + "2023-11-16 18:15:46.6805900,374,44\n").expect("a folder");
    let keys = folder.path("keys");
    std::fs::write(&keys, "a=secret-of-a\n").expect("a folder");
    let odd = folder.path("odd");
    std::fs::write(&odd, "acme=secret-of-acme\n").expect("a folder");
    let nowhere = "--url http://127.0.0.1:9 --model m";
    for (words, part) in [
        ("replay --url http://127.0.0.1:9".to_owned(), "FILE is missing"),
        (format!("replay {}", folder.path("none.jsonl")), "cannot open"),
        (format!("replay {mixed} {nowhere}"), "line 7"),
        (format!("replay {good}"), "--fleet"),
        (format!("replay {good} {nowhere} --speed 0"), "the rate is 0"),
        (format!("replay {good} {nowhere} --keys {keys}"), "000000000000000b (2 requests)"),
        (format!("replay {good} {nowhere} --keys {odd}"), "odd:1 is not TENANT=KEY"),
        (format!("replay {good} {nowhere} --bytes-per-token 0"), "use 0.5 to 16"),
        (format!("replay {good} {nowhere} --after 1h"), "no requests that can be sent"),
        (format!("replay {good} --fleet 3xllama"), "COUNTxMODEL@GPU"),
        (format!("replay {good} {nowhere}"), "give --bytes-per-token, or correct the address"),
        (
            format!("replay {good} {nowhere} --bytes-per-token 4"),
            "none of 4 requests got an answer",
        ),
    ] {
        let error = bad(&bench(&words, &[]));
        assert!(error.contains(part) && !error.contains("secret"), "{words}: {error}");
    }
}

// Two runs of one workload are compared from their reports; runs of different ones are refused. A
// run writes its figures and its plots as well.
#[test]
fn compares() {
    let (engine, folder) = (engine(), Folder::new("compare"));
    let run = |name: &str, clients: u32| {
        let file = folder.path(name);
        let words = format!(
            "--url http://{} --clients {clients} --programs 40 {SHORT} --json {file}.json \
             --csv {file}.csv --svg {file}.svg --slo ttft=60s",
            engine.address
        );
        let text = good(&bench(&words, &[]));
        assert!(text.contains("goodput at TTFT <= 60s"), "{text}");
        let csv = std::fs::read_to_string(format!("{file}.csv")).expect("it was written");
        let columns: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
        assert_eq!((columns.len(), columns[0] == columns[1]), (2, true), "{csv}");
        assert!(
            std::fs::read_to_string(format!("{file}.svg"))
                .expect("it was written")
                .contains("TTFT over the run")
        );
        assert_eq!(json(&format!("{file}.json"))["requests"].as_array().map(Vec::len), Some(40));
        format!("{file}.json")
    };
    let (a, b, other) = (run("a", 2), run("b", 2), run("other", 3));
    let [csv, svg] = ["c.csv", "c.svg"].map(|name| folder.path(name));
    let text = good(&bench(&format!("compare {a} {b} --csv {csv} --svg {svg}"), &[]));
    assert!(text.contains("A: a (40 requests), B: b (40 requests)"), "{text}");
    assert!(text.contains("TTFT, p50, ms") && text.contains("goodput, requests/s"), "{text}");
    assert!(std::fs::read_to_string(csv).expect("it was written").starts_with("metric,unit,a,b,"));
    assert!(std::fs::read_to_string(svg).expect("it was written").contains("b over a"));
    let error = bad(&bench(&format!("compare {a} {other}"), &[]));
    assert!(error.contains("different workloads: arrivals"), "{error}");
    let text = good(&bench(&format!("compare {a},{b} {other} --any-workload"), &[]));
    assert!(text.contains("A: a, b (2 runs, 80 requests)"), "{text}");
    assert!(bad(&bench(&format!("compare {a} none.json"), &[])).contains("cannot read none.json"));
}

// GORGO's throughput load sends everything at once. The shared system prompt is sent before the
// run, which then finds it in the cache; without shared prompts there is nothing to warm.
#[test]
fn throughput_and_warm_caches() {
    let (engine, folder) = (engine(), Folder::new("throughput"));
    let out = folder.path("t.json");
    let words = format!(
        "--url http://{} --throughput 64 --programs 64 --warm 4 {SHORT} --json {out}",
        engine.address
    );
    let text = good(&bench(&words, &[]));
    assert!(text.contains("64 requests in flight at most"), "{text}");
    assert!(text.contains("warmed: 1 prefixes in 1 prompts"), "{text}");
    let report = json(&out);
    assert_eq!((&report["counts"]["ok"], &report["counts"]["errors"]), (&64.into(), &0.into()));
    let cached: Vec<_> = report["requests"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|r| r["cached_tokens"].as_u64())
        .collect();
    assert!(cached.iter().all(|tokens| *tokens >= Some(144)), "{cached:?}");
    let alone =
        format!("--url http://{} --system-bytes 0 --turns 1 --programs 4 --warm 4", engine.address);
    assert!(bad(&bench(&alone, &[])).contains("share no prefix"));
}

// Streams, idle connections and slow readers at a real gateway: every stream ends complete, and the
// replica's and the gateway's counts are those of the clients.
#[test]
fn many_connections() {
    let folder = Folder::new("streams");
    let out = folder.path("streams.json");
    let small = "streams --streams 40 --idle 20 --slow 4 --hold 1s";
    let text = good(&bench(small, &["--json", &out]));
    assert!(text.contains("memory of an open stream"), "{text}");
    let report = json(&out);
    let value = |name: &str| {
        let rows = report["rows"].as_array().expect("a list");
        let row = rows.iter().find(|row| row["name"] == name && row["case"] == "meridian");
        row.and_then(|row| row["value"].as_f64()).unwrap_or_else(|| panic!("{name}: {report}"))
    };
    assert_eq!(value("idle connections"), 20.0);
    assert_eq!(value("idle connections that the gateway closed"), 0.0);
    assert_eq!(value("streams that ended complete"), 40.0);
    assert_eq!(value("slow streams that ended complete"), 4.0);
    assert!(value("sent to each by the replica") > 1.0);
    let lost = ["streams lost", "bytes lost", "requests that the gateway counts differently"];
    for name in lost.into_iter().chain(["slow readers cut off by the gateway"]) {
        assert_eq!(value(name), 0.0, "{name}");
    }
}

// A case or a system that does not exist is refused with the names of those that do.
#[test]
fn races_between_unknown_systems() {
    let error = bad(&bench("gateway --cases sse_c1,sse_c2", &[]));
    assert!(error.contains("case \"sse_c2\" is unknown: use some of plain_c1, "), "{error}");
    let error = bad(&bench("gateway --only nginx,apache", &[]));
    assert!(error.contains("system \"apache\" is unknown: use some of direct, "), "{error}");
}
