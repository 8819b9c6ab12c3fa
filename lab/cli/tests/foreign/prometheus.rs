//! The shipped dashboard and alert rules, evaluated by a real Prometheus while `meridian up` runs.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use meridian_fleet::Client;
use serde_json::Value;

use crate::common::{LIMIT, must};

/// Panels without data in a fleet where nothing fails: no refusals, no certificate at the client
/// port, no pool that falls back, no replica that is down.
const QUIET: [&str; 6] = [
    "Refusals",
    "Retries",
    "Certificates",
    "Fallbacks and alarms",
    "Residency rules",
    "Replicas that are down",
];

fn dashboards() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dashboards")
}

fn from_zero() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scale-from-zero")
}

/// A program that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn promtool(args: &[&str]) -> String {
    let output = Command::new("promtool").args(args).current_dir(dashboards()).output();
    let output = output.expect("promtool is missing: apt-get install prometheus");
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "promtool {args:?}: {out}\n{err}");
    out.into_owned()
}

// promtool accepts the rules and the example configuration, and each tested alert fires on its cause
// and no sooner.
#[test]
fn rules_are_valid_and_fire() {
    let found = promtool(&["check", "rules", "alerts.yaml"]);
    assert!(found.contains("rules found"), "{found}");
    promtool(&["check", "config", "prometheus.yaml"]);
    let tested = promtool(&["test", "rules", "alerts_test.yaml"]);
    assert!(tested.contains("SUCCESS"), "{tested}");
    let example = from_zero().join("rules_test.yaml").display().to_string();
    let tested = promtool(&["test", "rules", &example]);
    assert!(tested.contains("SUCCESS"), "{tested}");
}

/// The expressions by which the example's autoscalers scale a model: KEDA's, and that of
/// prometheus-adapter with the labels of its HorizontalPodAutoscaler.
fn scaling(model: &str) -> [String; 2] {
    let read = |name: &str| std::fs::read_to_string(from_zero().join(name)).expect("it is there");
    let value = |text: &str, key: &str| {
        let (_, rest) = text.split_once(key).unwrap_or_else(|| panic!("no {key} in {text}"));
        rest.lines().next().unwrap_or_default().trim().to_owned()
    };
    let keda = value(&read("scaledobject.yaml"), "query:");
    let adapter = value(&read("adapter.yaml"), "metricsQuery:");
    let labels = value(&read("hpa.yaml"), "matchLabels:");
    assert_eq!(labels, "{model: llama-3.1-8b}");
    let matchers = format!("model=\"{model}\"");
    let keda = keda.replace("model=\"llama-3.1-8b\"", &matchers);
    let adapter = adapter.replace("<<.LabelMatchers>>", &matchers);
    for expression in [&keda, &adapter] {
        assert!(expression.contains(&matchers), "{expression}");
    }
    [keda, adapter]
}

/// Starts `meridian up`; the addresses of its gateways' admin ports.
fn up() -> (Running, Vec<String>) {
    let mut child = Command::new(crate::programs::MERIDIAN)
        .args(["up", "--time-scale", "4"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    let mut out = BufReader::new(child.stdout.take().expect("is a pipe"));
    let (mut admins, mut line) = (Vec::new(), String::new());
    while !line.contains(" done, ") {
        line.clear();
        assert!(out.read_line(&mut line).expect("is text") > 0, "up ended by itself");
        let admin = line.trim().strip_prefix("admin    http://");
        admins.extend(admin.and_then(|rest| Some(rest.split_once('/')?.0.to_owned())));
    }
    // Its reports must be read, or the pipe fills.
    std::thread::spawn(move || out.read_to_end(&mut Vec::new()));
    (Running(child), admins)
}

/// Starts a Prometheus that scrapes them each second, with the shipped rules.
fn prometheus(admins: &[String], folder: &Path) -> (Running, String) {
    let port = meridian_fleet::free_port().expect("a port is free");
    let address = format!("127.0.0.1:{port}");
    let config = format!(
        "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{}, {}]\n\
         scrape_configs:\n  - job_name: meridian\n    static_configs: [{{targets: {admins:?}}}]\n",
        dashboards().join("alerts.yaml").display(),
        from_zero().join("rules.yaml").display()
    );
    let file = folder.join("prometheus.yaml");
    std::fs::write(&file, config).expect("can be written");
    let child = Command::new("prometheus")
        .arg(format!("--config.file={}", file.display()))
        .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
        .arg(format!("--web.listen-address={address}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("prometheus is missing: apt-get install prometheus");
    (Running(child), format!("http://{address}"))
}

/// The result of an expression; a panic if it is not valid.
async fn query(client: &Client, prometheus: &str, expression: &str) -> Vec<Value> {
    let escaped: String = expression.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let answer = must(client.get(&format!("{prometheus}/api/v1/query?query={escaped}")).await);
    let value = answer.value();
    assert_eq!(value["status"], "success", "{expression}: {value}");
    value["data"]["result"].as_array().cloned().unwrap_or_default()
}

/// The dashboard's expressions, by panel, with its variables filled in.
fn expressions() -> Vec<(String, String)> {
    let text = std::fs::read_to_string(dashboards().join("grafana.json")).expect("it is there");
    let board: Value = serde_json::from_str(&text).expect("it is JSON");
    let panels = board["panels"].as_array().expect("it has panels");
    let mut all = Vec::new();
    for panel in panels {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().expect("a target has an expression");
            let filled = expression.replace("$gateway", ".*").replace("$__rate_interval", "10s");
            all.push((panel["title"].as_str().unwrap_or_default().to_owned(), filled));
        }
    }
    assert!(all.len() > 30, "{}", all.len());
    all
}

// Every expression of the dashboard is valid and has data, except where nothing happens in a healthy
// fleet. Every rule is evaluated without an error, and no alert of a failure fires.
#[tokio::test]
async fn every_expression_is_evaluated() {
    let folder = std::env::temp_dir().join(format!("meridian-prometheus-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("can be made");
    let (_up, admins) = up();
    assert_eq!(admins.len(), 3);
    let (_prometheus, url) = prometheus(&admins, &folder);
    let client = Client::new();
    wait_for_scrapes(&client, &url, admins.len()).await;
    let quiet: BTreeSet<&str> = QUIET.into();
    let (start, mut empty) = (Instant::now(), expressions());
    while !empty.is_empty() {
        let mut left = Vec::new();
        for (panel, expression) in empty {
            let is_empty = query(&client, &url, &expression).await.is_empty();
            if is_empty && !quiet.contains(&*panel) {
                left.push((panel, expression));
            }
        }
        empty = left;
        assert!(start.elapsed() < LIMIT, "no data: {empty:?}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    // The fleet serves one model, under load, and each of its regions needs a replica at least.
    for expression in scaling("llama-3.1-8b") {
        let found = query(&client, &url, &expression).await;
        let value = found[0]["value"][1].as_str().and_then(|value| value.parse::<f64>().ok());
        assert!(found.len() == 1 && value >= Some(1.0), "{expression}: {found:?}");
    }
    rules_are_healthy(&client, &url).await;
    let _ = std::fs::remove_dir_all(&folder);
}

async fn wait_for_scrapes(client: &Client, url: &str, targets: usize) {
    let start = Instant::now();
    loop {
        let ready = client.get(&format!("{url}/-/ready")).await;
        if ready.is_ok_and(|answer| answer.status == 200) {
            let up = query(client, url, "up == 1").await;
            if up.len() == targets {
                return;
            }
        }
        assert!(start.elapsed() < LIMIT, "not all gateways are scraped");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn rules_are_healthy(client: &Client, url: &str) {
    let value = must(client.get(&format!("{url}/api/v1/rules")).await).value();
    let groups = value["data"]["groups"].as_array().expect("there are groups");
    let rules: Vec<&Value> = groups.iter().flat_map(|g| g["rules"].as_array()).flatten().collect();
    assert!(rules.len() >= 13, "{value}");
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
        assert_ne!(rule["state"], "firing", "{rule}");
    }
}
