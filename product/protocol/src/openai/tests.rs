//! Tests of the public functions: requests, splices, answers, error bodies.

mod accepted;
mod aliases;
mod answers;
mod billing;
mod chunks;
mod conversations;
mod encodings;
mod engine_fields;
mod media;
mod prefill;
mod recorded;
mod refusals;
mod requests;
mod splices;

use super::{Endpoint, Reading, RequestInfo, read};

fn reading() -> Reading {
    Reading { seed: 7, block_bytes: 8, head_bytes: 16, tenant_scope: None, counts: false }
}

fn ok(endpoint: Endpoint, body: &str) -> RequestInfo {
    read(endpoint, body.as_bytes(), &reading()).expect("a good body")
}

fn chat(body: &str) -> RequestInfo {
    ok(Endpoint::ChatCompletions, body)
}

/// The hashes and the length of a prompt: everything that distinguishes one from another.
fn print(info: &RequestInfo) -> (Vec<u64>, u64) {
    (info.fingerprint.blocks().to_vec(), info.prompt_bytes)
}
