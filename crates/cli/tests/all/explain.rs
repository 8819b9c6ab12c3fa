//! `meridian explain` against an admin port that this test mocks.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Command, Output};

/// Answers one request with `body`, and returns the output of `meridian explain`. The environment
/// has the variables for commands that ask a control plane.
fn explain(body: &'static str) -> Output {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let admin = format!("http://{}", listener.local_addr().expect("it listens"));
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client connects");
        let mut lines = BufReader::new(&stream).lines();
        while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
        let length = body.len();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
        (&stream).write_all(head.as_bytes()).expect("the client reads");
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
    command.args(["explain", "r-1", "--admin", &admin]);
    command.env("MERIDIAN_KEY", "control.key").env("MERIDIAN_CERTIFICATE", "control.crt");
    command.output().expect("the binary runs")
}

// A forwarded request's explanation lists replicas and peers with their numbers, marks the pick,
// names why the others are not eligible, and fits 100 columns.
#[test]
fn peers_are_printed() {
    let body = r#"{"id": "r-1", "logged_as": "r-1", "policy": "meridian", "attempt": 0,
        "resumed": false, "picked": "eu/eu-1", "reason": "forwarded", "rules": ["eu-only"],
        "candidates": [{"id": 3, "url": "http://replica-3.us.example.internal:8000",
            "ineligible": "full", "matched_tokens": 12.0, "prompt_tokens": 1024, "pending": 7,
            "running": 256, "outstanding": 263, "front_tokens": 123456.0, "kv_used": 0.97,
            "terms": [["prefill", 812.25], ["queue", 1200.5]]}],
        "peers": [
            {"name": "eu/eu-1", "unavailable": null, "matched_tokens": 960.0, "rtt_ms": 92.0,
             "held": 0, "eligible": 3, "since": 2},
            {"name": "asia/asia-1", "unavailable": "no room", "matched_tokens": 0.0,
             "rtt_ms": 180.0, "held": 12, "eligible": 0, "since": 0}]}"#;
    let output = explain(body);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for line in said.lines() {
        assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
    }
    let row = |start: &str| said.lines().find(|line| line.contains(start)).unwrap_or_default();
    assert!(row("peer eu/eu-1").starts_with("* peer eu/eu-1 eligible"), "{said}");
    assert!(row("peer asia/asia-1").starts_with("  peer asia/asia-1 no room"), "{said}");
    assert!(
        row("r3 ").starts_with("  r3 http://replica-3.us.example.internal:8000 full"),
        "{said}"
    );
    for part in
        ["matched 960 of 1024 tokens", "rtt 92 ms", "3 replicas with free capacity", "eu-only"]
    {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
}

// A request with two legs: the first line names both replicas, the second compares the pair with one
// replica alone, and both replicas are marked.
#[test]
fn two_legs_are_printed() {
    let body = r#"{"id": "r-1", "logged_as": "r-1", "policy": "meridian", "attempt": 1,
        "picked": "http://d:8000", "prefill": "http://p:8000", "reason": "two-legs",
        "pair": {"score": 485.5, "alone": 568.0, "fixed_ms": 5.0, "ms_per_token": 0.02},
        "candidates": [
            {"id": 0, "url": "http://p:8000", "role": "prefill", "ineligible": null,
             "matched_tokens": 0.0, "prompt_tokens": 4000, "pending": 0, "running": 0,
             "outstanding": 0, "front_tokens": 0.0, "kv_used": 0.1, "moving_tokens": 250.0,
             "terms": [["prefill_ms", 400.0]]},
            {"id": 1, "url": "http://d:8000", "role": "decode", "ineligible": null,
             "matched_tokens": 0.0, "prompt_tokens": 4000, "pending": 0, "running": 12,
             "outstanding": 12, "front_tokens": 0.0, "kv_used": 0.5, "terms": [["kv_ms", 85.0]]},
            {"id": 2, "url": "http://e:8000", "role": "decode", "ineligible": null,
             "matched_tokens": 0.0, "prompt_tokens": 4000, "pending": 0, "running": 40,
             "outstanding": 40, "front_tokens": 0.0, "kv_used": 0.9, "terms": []}]}"#;
    let said = String::from_utf8_lossy(&explain(body).stdout).into_owned();
    let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "meridian picked prefill http://p:8000 -> http://d:8000 (two-legs)",
        "score of the pair 485.50, of one replica alone 568.00; KV takes 5.0 ms and 20.0 ms for each 1,000 tokens",
        "* r0 http://p:8000 prefill, eligible: matched",
        "250 tokens of KV under way, prefill_ms 400.00",
        "* r1 http://d:8000 decode, eligible: matched",
    ] {
        assert!(flat.contains(part), "{part} is missing in {said}");
    }
    assert!(said.contains("\n  r2 http://e:8000 decode"), "{said}");
}
