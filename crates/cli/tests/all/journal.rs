//! The journal of a gateway, as other commands read it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use meridian_workload::trace::{Format, Outcome, ReadOptions, Reader, TraceRequest};

/// A process of `meridian` that is killed at the end of its test.
struct Process {
    child: Child,
    address: String,
}

impl Process {
    fn start(args: &[&str]) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_meridian"));
        command.args(args).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the binary runs");
        let mut line = String::new();
        let out = child.stdout.as_mut().expect("is piped");
        BufReader::new(out).read_line(&mut line).expect("it prints its address");
        let address = line.trim().strip_prefix("listening on http://").expect("it listens");
        Process { address: address.to_owned(), child }
    }

    /// Sends a request; returns the whole answer.
    fn ask(&self, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("it accepts");
        let length = body.len();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\nx-session-id: s-1\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(head.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }

    /// Sends SIGTERM and waits for the end.
    fn terminate(&mut self) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs");
        assert!(sent.success());
        assert!(self.child.wait().expect("it ends").success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder that is removed at the end of its test.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn chat(prompt: &str) -> String {
    format!(r#"{{"model":"m","max_tokens":4,"messages":[{{"role":"user","content":"{prompt}"}}]}}"#)
}

// Requests through a real gateway to the engine model: after SIGTERM, the workload's reader accepts
// every line of the journal, turns of a conversation share their leading blocks, and `meridian
// workload stats` reads the file.
#[test]
fn is_read_as_a_workload() {
    let folder = std::env::temp_dir().join(format!("meridian-journal-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the system has a folder for temporary files");
    let folder = Folder(folder);
    let journal = folder.0.join("journal.jsonl").display().to_string();
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

    let stats = Command::new(env!("CARGO_BIN_EXE_meridian"))
        .args(["workload", "stats", "--json", &journal])
        .output()
        .expect("the binary runs");
    assert!(stats.status.success(), "{}", String::from_utf8_lossy(&stats.stderr));
    let stats: serde_json::Value = serde_json::from_slice(&stats.stdout).expect("it is JSON");
    assert_eq!(stats["requests"], requests.len());
    let log = std::fs::read_to_string(format!("{journal}.log")).expect("it was written");
    assert_eq!(log.lines().count(), 3 + refused, "{log}");
}
