//! SIGHUP, as service managers and log rotation send it: processes reload, and no request ends.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::common::{LIMIT, chat, fleet, must, status_when, up};
use meridian_fleet::{Client, EngineSpec, Gateway, LoadSpec, Process, Stream};

const KEYS: [&str; 2] = ["a-key-of-one-0123456789", "a-key-of-two-0123456789"];

fn hash(key: &str) -> String {
    let mut command = Command::new(crate::programs::MERIDIAN);
    let mut child = command
        .arg("tenant-key")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut stdin = child.stdin.take().expect("is a pipe");
    stdin.write_all(key.as_bytes()).expect("is read");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    String::from_utf8(output.stdout).expect("is text").trim().to_owned()
}

/// A gateway's file with these tenants and this many threads.
fn gateway_file(path: &Path, tenants: &[&str], threads: u32, replicas: &Path) {
    let mut yaml = format!(
        "version: 1\nlisten: 127.0.0.1:0\nadmin: 127.0.0.1:0\n\
         threads: {threads}\ndiscovery: [{{file: {}}}]\ntenants:\n",
        replicas.display()
    );
    for (n, key) in tenants.iter().enumerate() {
        yaml.push_str(&format!("  - {{name: t{n}, keys: [\"{}\"]}}\n", hash(key)));
    }
    std::fs::write(path, yaml).expect("writes");
}

async fn log_has(process: &Process, text: &str, times: usize) {
    let start = Instant::now();
    let log = || std::fs::read_to_string(process.log()).expect("there is a log");
    while log().matches(text).count() < times {
        assert!(start.elapsed() < LIMIT, "{text:?} is not there {times} times: {}", log());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

async fn code(client: &Client, gateway: &Gateway, key: &str) -> u16 {
    open(client, gateway, key, 2).await.status
}

async fn open(client: &Client, gateway: &Gateway, key: &str, tokens: u32) -> Stream {
    let body = chat("hello", tokens, true).replace("meridian-tiny", "llama-3.1-8b");
    let bearer = format!("Bearer {key}");
    let headers = [("authorization", bearer.as_str())];
    must(client.open(&format!("{}/v1/chat/completions", gateway.url), body, &headers).await)
}

// A stream runs from before the first SIGHUP until after the last; the gateway, the engine and the
// control plane get several. An added tenant is served at once, and so is an added replica. Invalid
// changes, and changes that need a restart, are logged and have no effect. Logs have no colours.
#[tokio::test]
async fn hangups_reload_and_end_nothing() {
    let (fleet, client) = (fleet(), Client::new());
    let engine = must(fleet.engine("engine", &EngineSpec::default()).await);
    let second = must(fleet.engine("second", &EngineSpec::default()).await);
    let (file, list) = (fleet.dir().join("gateway.yaml"), fleet.dir().join("replicas.yaml"));
    std::fs::write(&list, format!("- url: {}\n", engine.said(0))).expect("writes");
    gateway_file(&file, &KEYS[..1], 1, &list);
    let args = ["gateway".as_ref(), "-c".as_ref(), file.as_os_str()];
    let process = must(fleet.meridian("gateway", args, &["listening on ", "admin on "]).await);
    let (url, admin) = (process.said(0).to_owned(), process.said(1).to_owned());
    let mut gateway = Gateway { process, url, admin, peers: None };
    let store = fleet.dir().join("control.yaml");
    let yaml = "version: 1\nadmin: 127.0.0.1:0\nstore: ";
    let yaml = format!("{yaml}{}\n", fleet.dir().join("control.redb").display());
    std::fs::write(&store, &yaml).expect("writes");
    let args = ["control".as_ref(), "-c".as_ref(), store.as_os_str()];
    let mut control = must(fleet.meridian("control", args, &["admin on "]).await);
    status_when(&client, &gateway, "the replica is up", up(1)).await;

    let tokens = 200;
    let mut stream = open(&client, &gateway, KEYS[0], tokens).await;
    assert_eq!(stream.status, 200);
    let mut pieces = u32::from(must(stream.next().await).is_some());
    assert_eq!(code(&client, &gateway, KEYS[1]).await, 401);

    // Two changes at once: one is reloaded, and the other one needs a restart.
    gateway_file(&file, &KEYS, 2, &list);
    let both = format!("- url: {}\n- url: {}\n", engine.said(0), second.said(0));
    std::fs::write(&list, both).expect("writes");
    for process in [&gateway.process, &engine, &control] {
        process.hang_up();
    }
    log_has(&gateway.process, "reloaded on SIGHUP changed=\"configuration, file", 1).await;
    log_has(&gateway.process, "restart the gateway to apply them keys=\"threads\"", 1).await;
    assert_eq!(code(&client, &gateway, KEYS[1]).await, 200);
    status_when(&client, &gateway, "the second replica is up", up(2)).await;
    log_has(&control, "there are no certificates to reload", 1).await;
    log_has(&control, "the rest of the configuration did not change", 1).await;
    log_has(&engine, "a model engine has nothing to reload", 1).await;

    // Several SIGHUPs in a row, with invalid files.
    std::fs::write(&file, "version: 1\ntenants: [").expect("writes");
    std::fs::write(&store, format!("{yaml}target: 0.5\n")).expect("writes");
    for _ in 0..5 {
        for process in [&gateway.process, &engine, &control] {
            process.hang_up();
        }
        log_has(&gateway.process, "part=\"configuration\"", 1).await;
    }
    log_has(&gateway.process, "cannot be reloaded; the current version stays in use", 1).await;
    log_has(&control, "restart the control plane to apply them sections=\"target\"", 1).await;
    assert_eq!(code(&client, &gateway, KEYS[1]).await, 200);

    let mut done = false;
    while let Some(event) = must(stream.next().await) {
        assert!(!event.is_error(), "{}", event.data);
        done |= event.is_done();
        pieces += 1;
    }
    assert!(done && pieces > tokens, "{pieces} pieces of {tokens} tokens");
    assert!(gateway.process.ended().is_none() && control.ended().is_none());
    for process in [&gateway.process, &control] {
        let log = std::fs::read_to_string(process.log()).expect("there is a log");
        assert!(!log.contains('\u{1b}'), "the log has colours: {log}");
    }
}

/// Reloads under load.
const RELOADS: usize = 1000;
/// Most that the gateway's memory may grow from the first hundred reloads to the last, bytes. A leak of
/// one list of replicas, tenants or rules for each reload would be more.
const GROWTH: u64 = 8 << 20;

/// The gateway's file, other in every section that a reload can change.
fn nth_file(n: usize, engines: &[Process], dir: &Path) -> String {
    let pick = |words: [&'static str; 2]| words[n % 2];
    let [first, second] = [engines[n % 2].said(0), engines[1 - n % 2].said(0)];
    format!(
        "version: 1\nlisten: 127.0.0.1:0\nadmin: 127.0.0.1:0\n\
         replicas: [{{url: {first}}}, {{url: {second}}}{}]\n\
         tenants: [{{name: t0, keys: [\"{}\"], priority: {}}}]\n\
         policy: {}\nlimits: {{requests: {}, body: {}}}\nattempts: {}\n\
         timeouts: {{connect: {}, idle: {}}}\nheld: {{max_wait: {}}}\n\
         paths: [{}]\naccess_log: {{to: {}/access-{}.log}}\nexplain_keep: {}\n\
         residency: {{rules: [{{name: {}, tenants: [t0], run_in: [local]}}]}}\n",
        pick(["", ", {url: \"http://127.0.0.1:9\"}"]),
        hash(KEYS[0]),
        pick(["high", "low"]),
        pick(["meridian", "chwbl"]),
        1000 + n,
        pick(["32MiB", "16MiB"]),
        pick(["3", "2"]),
        pick(["1s", "2s"]),
        pick(["2m", "3m"]),
        pick(["10s", "20s"]),
        pick(["/generate", "/other"]),
        dir.display(),
        n % 2,
        pick(["1024", "512"]),
        pick(["here", "there"]),
    )
}

/// The memory of a process that is in RAM, bytes.
fn resident(process: &Process) -> u64 {
    let id = process.id().expect("it runs");
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("is there");
    let kib: u64 = line.trim_end_matches("kB").trim().parse().expect("is a number");
    kib << 10
}

// A thousand reloads that change the policy, limits, timeouts, paths, replicas, rules and the access
// log, while clients send requests: none is lost or refused, and the memory does not grow.
#[tokio::test]
async fn a_thousand_reloads_under_load() {
    let (fleet, client) = (fleet(), Client::new());
    let mut engines = Vec::new();
    for name in ["first", "second"] {
        let spec = EngineSpec { time_scale: 10.0, ..EngineSpec::default() };
        engines.push(must(fleet.engine(name, &spec).await));
    }
    let file = fleet.dir().join("gateway.yaml");
    std::fs::write(&file, nth_file(0, &engines, fleet.dir())).expect("writes");
    let args = ["gateway".as_ref(), "-c".as_ref(), file.as_os_str()];
    let process = must(fleet.meridian("gateway", args, &["listening on ", "admin on "]).await);
    let (url, admin) = (process.said(0).to_owned(), process.said(1).to_owned());
    let gateway = Gateway { process, url, admin, peers: None };
    status_when(&client, &gateway, "the replicas are up", up(2)).await;
    let args =
        ["--clients", "8", "--max-tokens", "32", "--workload", "sessions", "--api-key", KEYS[0]];
    let args = args.map(str::to_owned).into();
    let spec = LoadSpec { url: gateway.url.clone(), duration: 20 * LIMIT, args };
    let mut load = must(fleet.load("load", &spec).await);
    let mut early = 0;
    for n in 1..=RELOADS {
        std::fs::write(&file, nth_file(n, &engines, fleet.dir())).expect("writes");
        gateway.process.hang_up();
        let start = Instant::now();
        loop {
            let page: serde_json::Value =
                must(client.json(&format!("{}/admin/config", gateway.admin)).await);
            if page["limits"]["requests"] == 1000 + n {
                break;
            }
            assert!(start.elapsed() < LIMIT, "{n}: {}", gateway.process.log_tail());
        }
        if n == RELOADS / 10 {
            early = resident(&gateway.process);
        }
    }
    let late = resident(&gateway.process);
    load.process.terminate();
    let report = must(load.report(2 * LIMIT).await);
    let counts = report.counts;
    println!("{RELOADS} reloads, {} requests, {} to {} KiB", counts.ok, early >> 10, late >> 10);
    assert_eq!((counts.errors, counts.sent), (0, counts.ok), "{report:?}");
    assert!(counts.ok as usize > 8, "a run without load shows nothing");
    assert!(late < early + GROWTH, "the gateway grew from {early} to {late} bytes");
}
