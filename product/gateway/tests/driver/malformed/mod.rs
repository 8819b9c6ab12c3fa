//! Requests that are invalid in every known way, each with the exact answer.
//!
//! The cases are in the text files in this folder: the input, and the answer. After each of them
//! the gateway keeps serving, on a new connection and, if it was kept, on the same. Nothing is in
//! flight, and all accepted requests have ended.

mod http1;
mod http2;

use std::time::Duration;

use datadriven::TestCase;

use crate::common::{Region, Replica, call, chat, get};
use meridian_protocol::units::Size;

/// Silence after which no more output is expected; time is paused.
const QUIET: Duration = Duration::from_millis(50);
/// Longer than every timeout of the gateway.
const FOREVER: Duration = Duration::from_secs(3600);

/// A region with small limits, and its runtime.
struct World {
    runtime: tokio::runtime::Runtime,
    replica: Replica,
    region: Region,
}

impl World {
    fn new() -> World {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        let (replica, region) = runtime.block_on(async {
            let replica = Replica::start().await;
            let region = Region::with(&[&replica], |c| {
                c.limits.body = Size::kib(64);
                c.limits.headers = Size::kib(16);
            })
            .await;
            (replica, region)
        });
        World { runtime, replica, region }
    }

    /// Runs one case, and returns what the replica received.
    fn run(&self, case: &TestCase, one: impl AsyncFnOnce(&Region, &TestCase) -> String) -> String {
        self.runtime.block_on(async {
            let before = self.replica.count();
            let mut said = one(&self.region, case).await;
            for seen in &self.replica.seen()[before..] {
                let (method, target, length) = (&seen.method, &seen.target, seen.body.len());
                said += &format!("reached the replica: {method} {target}, {length} bytes\n");
            }
            let good = call(self.region.listen, chat("good")).await;
            assert_eq!(good.status, 200, "the gateway keeps serving after {}", case.input);
            // It compares the accepted requests with the ended ones.
            self.region.settled().await;
            let page = get(self.region.admin, "/metrics").await;
            assert!(page.text().contains("meridian_body_bytes 0"), "after {}", case.input);
            said
        })
    }
}

/// Bytes in the notation of the cases: `\r`, `\n`, `\t`, `\0`, `\xFF`, `\*1000:text;` for text a
/// thousand times; any other backslash stands for itself.
fn bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        bytes.extend_from_slice(before.as_bytes());
        let (byte, used) = match after.as_bytes().first() {
            Some(b'r') => (b'\r', 1),
            Some(b'n') => (b'\n', 1),
            Some(b't') => (b'\t', 1),
            Some(b'0') => (0, 1),
            Some(b'x') => (u8::from_str_radix(&after[1..3], 16).unwrap(), 3),
            Some(b'*') => {
                let (times, after) = after[1..].split_once(':').unwrap();
                let (what, after) = after.split_once(';').unwrap();
                bytes.extend(self::bytes(what).repeat(times.parse().unwrap()));
                rest = after;
                continue;
            }
            _ => (b'\\', 0),
        };
        bytes.push(byte);
        rest = &after[used..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

// Every malformed request over HTTP/1.1 gets exactly the answer next to it.
#[test]
fn malformed_http1() {
    let world = World::new();
    datadriven::walk("tests/driver/malformed/http1", |file| {
        file.run(|case| world.run(case, http1::one));
    });
}

// The same over HTTP/2, as frames.
#[test]
fn malformed_http2() {
    let world = World::new();
    datadriven::walk("tests/driver/malformed/http2", |file| {
        file.run(|case| world.run(case, http2::one));
    });
}
