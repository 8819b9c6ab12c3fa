//! Requests that are wrong in every way that we know of, each with the exact answer.
//!
//! The cases stand in the text files beside this: what is sent, and what came back. After each of
//! them the gateway serves on, on a new connection and, where it was kept, on the same; nothing is
//! in flight, and all that was accepted has ended.

mod http1;
mod http2;

use std::time::Duration;

use datadriven::TestCase;

use crate::common::{Region, Replica, call, chat, get};
use meridian_wire::config::Size;

/// Nothing more comes when nothing has come for so long; time is paused.
const QUIET: Duration = Duration::from_millis(50);
/// Longer than every bound of the gateway's.
const FOREVER: Duration = Duration::from_secs(3600);

/// A region with small limits, and the runtime that it lives on.
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

    /// One case, and what reached the replica by it.
    fn run(&self, case: &TestCase, one: impl AsyncFnOnce(&Region, &TestCase) -> String) -> String {
        self.runtime.block_on(async {
            let before = self.replica.count();
            let mut said = one(&self.region, case).await;
            for seen in &self.replica.seen()[before..] {
                let (method, target, length) = (&seen.method, &seen.target, seen.body.len());
                said += &format!("reached the replica: {method} {target}, {length} bytes\n");
            }
            let good = call(self.region.listen, chat("good")).await;
            assert_eq!(good.status, 200, "the gateway serves on after {}", case.input);
            // It compares what was accepted with what has ended.
            self.region.settled().await;
            let page = get(self.region.admin, "/metrics").await;
            assert!(page.text().contains("meridian_body_bytes 0"), "after {}", case.input);
            said
        })
    }
}

/// Bytes as the cases write them: `\r`, `\n`, `\t`, `\0`, `\xFF`, `\*1000:text;` for text a thousand
/// times; any other backslash is one.
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

// Every malformed request over HTTP/1.1 gets exactly the answer that stands beside it.
#[test]
fn malformed_http1() {
    let world = World::new();
    datadriven::walk("tests/driver/malformed/http1", |file| {
        file.run(|case| world.run(case, http1::one));
    });
}

// The same over HTTP/2, by frames.
#[test]
fn malformed_http2() {
    let world = World::new();
    datadriven::walk("tests/driver/malformed/http2", |file| {
        file.run(|case| world.run(case, http2::one));
    });
}
