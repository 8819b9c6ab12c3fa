//! The cost of reading a request and of scanning an answer.
//!
//! `cargo run --release -p meridian-wire --example read_cost`
//!
//! Prints GB/s of reading chat bodies of 64 KB (plain text, text with an escape every 40 bytes,
//! and a conversation of many turns) and nanoseconds per event of a stream.
//!
//! `valgrind --tool=callgrind target/release/examples/read_cost 4096 1000` counts the instructions of
//! reading a chat body of about 4,096 bytes 1,000 times; those with 0 in place of 1000 are the rest.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use meridian_protocol::openai::{Answer, Endpoint, Reading, read};

const SIZE: usize = 64 << 10;

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|number| number.parse().ok());
    if let (Some(bytes), Some(times)) = (numbers.next(), numbers.next()) {
        return only(bytes, times);
    }
    let plain = "The quick brown fox jumps over the lazy dog, again and again. ".repeat(1100);
    let code = "    let value = compute(a, b, c);\\n  x += 1;".repeat(2000);
    bodies("one message, plain", &message(&plain[..SIZE]));
    bodies("one message, escape every 40 B", &message(&code[..SIZE - SIZE % 44]));
    bodies("60 turns, plain", &turns(&plain, 60));
    bodies("2 KB, plain", &message(&plain[..2048]));
    events("token event", false, false);
    events("token event, undoing the splice", true, false);
    events("token event, collecting the reply", false, true);
    events("token event, both", true, true);
    null_usage();
}

/// Reads a chat of several turns, with the sampling parameters that clients send.
fn only(bytes: usize, times: usize) {
    let params = r#"{"temperature":0.7,"top_p":0.9,"seed":1,"presence_penalty":0.0,"n":1,"#;
    let text = "The quick brown fox jumps over the lazy dog, again and again. ".repeat(1100);
    let body = turns(&text[..bytes.min(SIZE)], 8).replacen('{', params, 1);
    (0..times).for_each(|_| once(&body));
}

fn once(body: &str) {
    let reading =
        Reading { seed: 1, block_bytes: 64, head_bytes: 100, tenant_scope: None, counts: false };
    black_box(read(Endpoint::ChatCompletions, black_box(body.as_bytes()), &reading).is_ok());
}

fn message(text: &str) -> String {
    format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{text}"}}],"stream":true}}"#)
}

fn turns(text: &str, n: usize) -> String {
    let each = &text[..text.len().min(SIZE) / n];
    let mut body = String::from(r#"{"model":"m","stream":true,"messages":["#);
    for i in 0..n {
        let role = if i % 2 == 0 { "user" } else { "assistant" };
        let comma = if i == 0 { "" } else { "," };
        let _ = write!(body, r#"{comma}{{"role":"{role}","content":"{each}"}}"#);
    }
    body + "]}"
}

/// The best of several rounds, in nanoseconds per call.
fn best(rounds: usize, calls: usize, mut f: impl FnMut()) -> f64 {
    (0..rounds)
        .map(|_| {
            let start = Instant::now();
            (0..calls).for_each(|_| f());
            start.elapsed().as_nanos() as f64 / calls as f64
        })
        .fold(f64::INFINITY, f64::min)
}

fn bodies(name: &str, body: &str) {
    let nanos = best(20, 200, || once(body));
    println!("read  {name:<34} {:>7.2} GB/s  {:>8.1} us", body.len() as f64 / nanos, nanos / 1e3);
}

fn events(name: &str, undo: bool, collect: bool) {
    let event = Bytes::from_static(
        b"data: {\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n",
    );
    let mut answer = Answer::new(Endpoint::ChatCompletions, true, undo, collect);
    let nanos = best(20, 2000, || {
        black_box(answer.feed(black_box(event.clone())));
    });
    println!("feed  {name:<34} {nanos:>7.0} ns");
}

fn null_usage() {
    let event = Bytes::from_static(
        b"data: {\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n",
    );
    let mut answer = Answer::new(Endpoint::ChatCompletions, true, true, false);
    let nanos = best(20, 2000, || {
        black_box(answer.feed(black_box(event.clone())));
    });
    println!("feed  {:<34} {nanos:>7.0} ns", "token event with \"usage\":null, undone");
}
