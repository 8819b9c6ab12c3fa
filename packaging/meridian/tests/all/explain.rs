//! `meridian explain` against an admin port that this test mocks.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Command, Output};

/// Answers one request with `body`, and returns the path that was asked for and the output of
/// `meridian explain`. The environment has the variables for commands that ask a control plane.
fn explain(args: &[&str], body: &'static str) -> (String, Output) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let admin = format!("http://{}", listener.local_addr().expect("it listens"));
    let server = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client connects");
        let mut lines = BufReader::new(&stream).lines().map_while(Result::ok);
        let asked = lines.next().unwrap_or_default();
        while lines.next().is_some_and(|line| !line.is_empty()) {}
        let length = body.len();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
        (&stream).write_all(head.as_bytes()).expect("the client reads");
        asked
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
    command.arg("explain").args(args).args(["--admin", &admin]);
    command.env("MERIDIAN_KEY", "control.key").env("MERIDIAN_CERTIFICATE", "control.crt");
    let output = command.output().expect("the binary runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (server.join().expect("it was asked"), output)
}

const FORWARDED: &str = r#"{"id": "r-1", "logged_as": "r-1", "policy": "meridian", "attempt": 1,
    "picked": "eu/eu-1", "reason": "nearest-peer", "outcome": "done", "total_ms": 412.0,
    "candidates": [{"id": 3, "url": "http://replica-3.us.example.internal:8000",
        "ineligible": "full", "matched_tokens": 12.0, "prompt_tokens": 1024, "pending": 7,
        "running": 256, "outstanding": 263, "front_tokens": 123456.0, "kv_used": 0.97,
        "terms": [["prefill_ms", 812.25], ["front_ms", 1200.5]]}],
    "peers": [
        {"name": "eu/eu-1", "unavailable": null, "matched_tokens": 960.0, "rtt_ms": 92.0,
         "held": 0, "eligible": 3, "since": 2},
        {"name": "asia/asia-1", "unavailable": "full", "matched_tokens": 0.0,
         "rtt_ms": 180.0, "held": 12, "eligible": 0, "since": 0}]}"#;

// The command asks for the request's decision, and prints it with its outcome, the marked pick and
// the reasons of the others; `--json` prints the gateway's answer.
#[test]
fn a_decision_is_printed() {
    let (asked, output) = explain(&["r-1"], FORWARDED);
    assert_eq!(asked, "GET /admin/explain/r-1 HTTP/1.1");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "r-1: forwarded to eu/eu-1 (nearest-peer); done after 412 ms",
        "r3 replica-3.us.example.internal:8000 812.2 1200.5 2012.8 full",
        "→ eu/eu-1 960 92 3 0 2 picked",
    ] {
        assert!(flat.contains(part), "{part} is missing in {said}");
    }
    let (_, output) = explain(&["r-1", "--json"], FORWARDED);
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), FORWARDED);
}

// Without an id, the command lists the newest decisions; decisions of a gateway that reports no
// outcomes are listed without them.
#[test]
fn decisions_are_listed() {
    let body = r#"[{"id": "req-1-1", "at_s": 1.5, "attempt": 1, "picked": "http://10.0.0.1:8000",
        "reason": "turn", "prompt_tokens": 4, "matched_tokens": 0.0}]"#;
    let (asked, output) = explain(&["--last", "7"], body);
    assert_eq!(asked, "GET /admin/decisions?last=7 HTTP/1.1");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("req-1-1") && said.contains("no outcome yet"), "{said}");
}
