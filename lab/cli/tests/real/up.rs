//! `meridian up`, as a user runs it.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::llamacpp_home;

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(crate::programs::MERIDIAN);
    command.arg("up").args(args).arg("--llamacpp-home").arg(llamacpp_home());
    command
}

fn up(args: &[&str]) -> Output {
    command(args).output().expect("the binary runs")
}

fn succeeds(args: &[&str]) -> String {
    let output = up(args);
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "up {args:?}: {}\n{out}\n{err}", output.status);
    assert!(out.contains("every request succeeded, and all counts agree"), "{out}");
    assert!(!out.contains("DIFFER"), "{out}");
    // A run without requests would prove nothing.
    let row = out.lines().find(|line| line.contains("requests done"));
    let client = row.and_then(|row| row.split_whitespace().nth(2)?.parse::<u64>().ok());
    assert!(client.is_some_and(|client| client > 0), "{out}");
    out.into_owned()
}

// Regions of model engines under load end on their own; every request succeeds, and all counts are
// equal, those of access logs, journals, traces, metrics and the page included. The tenant with a rule for eu was served there and nowhere else. In the region with
// pools some requests had two legs, and nothing of their KV was lost, kept or wrong.
#[test]
fn model_engines_succeed_and_counts_agree() {
    let folder = std::env::temp_dir().join(format!("meridian-up-record-{}", std::process::id()));
    let record = folder.to_str().expect("is text");
    let out = succeeds(&["--for", "5s", "--time-scale", "4", "--record", record]);
    recorded(&out, &folder);
    let again = up(&["--record", record]);
    let again = String::from_utf8_lossy(&again.stderr);
    assert!(again.contains("the folder is not empty; name a new one"), "{again}");
    let rule = out.lines().find_map(|line| line.strip_prefix("residency rule eu-only: "));
    let rule = rule.unwrap_or_else(|| panic!("no rule is reported: {out}"));
    assert!(!rule.starts_with("0 ") && rule.ends_with(", 0 refused"), "{rule}");
    assert!(out.contains("answers from forbidden places: 0"), "{out}");
    let legs = out.lines().find_map(|line| line.trim().strip_prefix("prefill legs"));
    let legs = legs.and_then(|row| row.split_whitespace().next()?.parse::<u64>().ok());
    assert!(legs.is_some_and(|legs| legs > 0), "{out}");
}

/// Each place counted the same requests, and the files are there.
fn recorded(out: &str, folder: &Path) {
    let lines = out.lines().skip_while(|line| !line.contains("access log"));
    let rows: Vec<Vec<&str>> = lines
        .skip(1)
        .take_while(|l| l.trim_end().ends_with("agree"))
        .map(|l| l.split("  ").collect())
        .collect();
    assert_eq!(rows.len(), 7, "{out}");
    for row in &rows {
        let counts = row.iter().filter_map(|cell| cell.trim().parse::<u64>().ok());
        // The smallest row is that of requests for the list of models: one of each load.
        assert!(counts.clone().count() >= 3 && counts.min() >= Some(3), "{row:?}: {out}");
    }
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("is there")
        .map(|file| file.expect("is readable").file_name().into_string().expect("is text"))
        .collect();
    files.sort_unstable();
    let of =
        |kind: &'static str| ["asia", "eu", "us"].map(|region| format!("{region}.{kind}.jsonl"));
    let mut expected = [of("access"), of("journal")].concat();
    expected.push("traces.jsonl".into());
    expected.sort_unstable();
    assert_eq!(files, expected);
}

// Several gateways of a region serve its clients together, and each request counts once, in their records
// too.
#[test]
fn gateways_of_one_region_share_its_clients() {
    let folder = std::env::temp_dir().join(format!("meridian-up-gateways-{}", std::process::id()));
    let record = folder.to_str().expect("is text");
    let several = ["--regions", "us", "--gateways", "3", "--record", record];
    succeeds(&[&["--for", "5s", "--time-scale", "4"][..], &several].concat());
    for gateway in ["us", "us-2", "us-3"] {
        let log = folder.join(format!("{gateway}.access.jsonl"));
        let log = std::fs::read_to_string(log).expect("each has a log");
        let served = log.lines().filter(|line| line.contains("chat_completions")).count();
        assert!(served > 0, "{gateway}: {log}");
    }
}

// The same with real llama.cpp servers, which `meridian up` installs.
#[test]
fn llamacpp_servers_succeed_and_counts_agree() {
    succeeds(&["--for", "5s", "--engine", "llamacpp", "--replicas", "3"]);
}

/// The command after `control` lists the replicas; without certificates, the same port refuses it.
fn the_control_plane_wants_certificates(said: &str) {
    let shown = said.lines().find_map(|line| line.trim().strip_prefix("control  meridian "));
    let shown = shown.unwrap_or_else(|| panic!("no control plane is reported: {said}"));
    let run = |args: &[&str]| {
        let mut command = Command::new(crate::programs::MERIDIAN);
        command.args(args).output().expect("the binary runs")
    };
    let args: Vec<&str> = shown.split_whitespace().collect();
    let output = run(&args);
    let listed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && listed.contains("us-engine-0"), "{shown}: {output:?}");
    let plain = args[3].replace("https://", "http://");
    let output = run(&["replicas", "list", "--control", &plain]);
    assert!(!output.status.success(), "{plain}: {output:?}");
}

// Ctrl-C stops a run without a time limit: requests in flight end, the summary is printed, and the
// run is judged like any other. Until then, its control plane answers clients with a certificate.
#[test]
fn an_interrupt_ends_a_run_in_good_order() {
    let mut up = command(&["--time-scale", "4", "--replicas", "2", "--load", "light"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(up.stdout.take().unwrap());
    let (mut line, mut said) = (String::new(), String::new());
    // Interrupted while requests are in flight: a line has reported answered requests.
    while !line.contains(" done, ") || line.contains(" 0 done, ") {
        line.clear();
        assert!(out.read_line(&mut line).unwrap() > 0, "ended by itself");
        said.push_str(&line);
    }
    the_control_plane_wants_certificates(&said);
    let id = up.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
    let (mut rest, mut err) = (String::new(), String::new());
    out.read_to_string(&mut rest).unwrap();
    up.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert!(up.wait().unwrap().success(), "{rest}\n{err}");
    assert!(rest.contains("every request succeeded, and all counts agree"), "{rest}\n{err}");
}

// If another process listens at the usual address, the gateway uses and prints another one.
#[test]
fn the_usual_port_may_be_taken() {
    // It is just as good if another program has the port already.
    let _taken = TcpListener::bind("127.0.0.1:8080");
    let out = succeeds(&["--for", "2s", "--time-scale", "4", "--regions", "us"]);
    let gateway = out.lines().find_map(|line| line.trim().strip_prefix("gateway  http://"));
    let gateway = gateway.unwrap_or_else(|| panic!("no gateway is reported: {out}"));
    assert!(gateway.starts_with("127.0.0.1:") && !gateway.contains(":8080/"), "{gateway}");
}

// Invalid settings are refused with the name of the setting and the remedy.
#[test]
fn senseless_settings_are_refused() {
    let cases: [(&[&str], &str); 11] = [
        (&["--gateways", "9"], "--gateways 9: use 1 to 8"),
        (&["--gateways", "2", "--topology", "central"], "--gateways 2: use 1 with central"),
        (&["--replicas", "0"], "--replicas 0: use 1 to 64"),
        (&["--regions", ""], "--regions \"\": region: `` is not a name; use lower-case"),
        (&["--regions", "us,us"], "--regions us,us: name each region once"),
        (&["--regions", "us,atlantis"], "atlantis"),
        (&["--policy", "best"], "best"),
        (&["--time-scale", "0"], "--time-scale"),
        (&["--pools", "asia=1"], "--pools: `asia=1` names no pools; write REGION=PREFILL:DECODE"),
        (&["--regions", "us", "--pools", "eu=1:1"], "--pools eu=1:1: name one of --regions"),
        (&["--night", "2"], "--night 2: use 0 to 1"),
    ];
    for (args, expected) in cases {
        let output = up(&[args, &["--for", "1s"]].concat());
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && err.contains(expected), "{args:?}: {err}");
    }
}
