//! SGLang: both engines get the same request and meet in a bootstrap room.
//!
//! The prefill engine serves the bootstrap server; the decode engine asks it for the room. Each
//! engine knows its role from its start, so the bodies are equal, limits included. A lost half
//! costs the other its timeout of 300 s unless the gateway cancels it, and two requests in one room
//! end both schedulers.
//!
//! Not here: `bootstrap_pair_key` and the ranks. By default the prefill engine takes the rank
//! `room % ranks`.

use super::added::{Added, json};
use super::handed::Handed;
use super::pair::{Lacks, Pair};
use super::spec::{Order, Protocol};
use crate::openai::Pieces;
use serde::Serialize;

const PORT: u16 = 8998;

pub(super) static SPEC: Protocol = Protocol {
    name: "sglang",
    summary: "SGLang: both legs at once with the same body, matched by a bootstrap room",
    source: "SGLang, python/sglang/srt/disaggregation",
    order: Order::Together,
    limits_prefill: false,
    hands_over: false,
    needs_limit: false,
    names_engine: false,
    bootstrap_port: Some(PORT),
    prefill: both,
    decode: |pair, _: Option<&Handed>| both(pair),
};

#[derive(Serialize)]
struct Members<'a> {
    bootstrap_host: &'a str,
    bootstrap_port: u16,
    bootstrap_room: u64,
}

fn both(pair: &Pair<'_>) -> Result<Added, Lacks> {
    let (bootstrap_host, bootstrap_port) = pair.bootstrap(PORT);
    // Rooms are signed.
    let bootstrap_room = pair.id >> 1;
    let object = json(&Members { bootstrap_host, bootstrap_port, bootstrap_room });
    let members = Pieces::from_iter([object.slice(1..object.len() - 1)]);
    Ok(Added { members, ..Added::default() })
}
