//! The journal of a gateway, as other commands read it.

use std::io::BufReader;
use std::process::Command;
use std::time::{Duration, Instant};

use meridian_workload::trace::{Format, Outcome, ReadOptions, Reader, TraceRequest};

use crate::process::{Folder, Process};

fn chat(prompt: &str) -> String {
    format!(r#"{{"model":"m","max_tokens":4,"messages":[{{"role":"user","content":"{prompt}"}}]}}"#)
}

// Requests through a real gateway to the engine model: after SIGTERM, the workload's reader accepts
// every line of the journal, turns of a conversation share their leading blocks, and `meridian
// workload stats` reads the file.
#[test]
fn is_read_as_a_workload() {
    let folder = Folder::new("journal");
    let journal = folder.path("journal.jsonl");
    let engine = Process::start(&[
        "engine",
        "--model",
        "llama-3.1-8b",
        "--gpu",
        "h100",
        "--served-model-name",
        "m",
        "--time-scale",
        "100",
    ]);
    let config = folder.0.join("gateway.yaml");
    let yaml = format!(
        "version: 1\nlisten: 127.0.0.1:0\nadmin: 127.0.0.1:0\nsecret: a test's secret\nlimits: {{connections: 64}}\nreplicas: [{{url: 'http://{}'}}]\njournal: {{to: '{journal}'}}\naccess_log: {{to: '{journal}.log', format: logfmt}}\n",
        engine.address
    );
    std::fs::write(&config, yaml).expect("a folder");
    let mut gateway =
        Process::start(&["gateway", "-c", config.to_str().expect("the path is text")]);
    let text: String = (0..3000).map(|n| format!("{n:04} ")).collect();
    // The replica joins a moment after the gateway listens.
    let until = Instant::now() + Duration::from_secs(30);
    let mut refused = 0;
    loop {
        let answer = gateway.ask(&chat(&text[..10_000]));
        if answer.starts_with("HTTP/1.1 200") {
            break;
        }
        assert!(answer.contains("no_replica") && Instant::now() < until, "{answer}");
        refused += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    for prompt in [&text[..], "hi"] {
        let answer = gateway.ask(&chat(prompt));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    gateway.terminate();

    let file = BufReader::new(std::fs::File::open(&journal).expect("it was written"));
    let reader = Reader::new(file, Format::Journal, &ReadOptions::default());
    let requests: Result<Vec<TraceRequest>, _> = reader.collect();
    let requests = requests.expect("every line is valid");
    let done: Vec<_> = requests.iter().filter(|one| one.outcome == Some(Outcome::Done)).collect();
    assert_eq!(done.len(), 3, "{requests:?}");
    let (first, second) = (done[0], done[1]);
    assert!(first.hash_ids.len() >= 4 && first.hash_ids.len() < second.hash_ids.len());
    assert_eq!(first.hash_ids[..3], second.hash_ids[..3]);
    assert_eq!((first.session, first.output_tokens), (second.session, 4));
    assert!(first.session.is_some() && done[2].hash_ids.is_empty());
    assert_eq!(first.model.as_deref(), Some("m"));

    let stats = Command::new(crate::programs::MERIDIAN)
        .args(["workload", "stats", "--json", &journal])
        .output()
        .expect("the binary runs");
    assert!(stats.status.success(), "{}", String::from_utf8_lossy(&stats.stderr));
    let stats: serde_json::Value = serde_json::from_slice(&stats.stdout).expect("it is JSON");
    assert_eq!(stats["requests"], requests.len());
    let log = std::fs::read_to_string(format!("{journal}.log")).expect("it was written");
    assert_eq!(log.lines().count(), 3 + refused, "{log}");
}
