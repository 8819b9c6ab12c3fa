//! vLLM with `MooncakeConnector`: the prefill engine writes into the decode engine's blocks.
//!
//! Both legs start at once and share a transfer id. The decode engine asks the prefill engine's
//! bootstrap server for the worker with `remote_engine_id`. The gateway knows that id from
//! [`ranks`](super::ranks()), and pins the prefill to its data-parallel rank.
//!
//! A prefill that ends by a stop token hands nothing over, and the decode engine waits minutes for
//! it. `min_tokens` 1 forbids stop tokens as the first token, and is within the leg's limit of 1.
//! Engines read it on the endpoints for completions and chats; on the other two, the gateway has
//! to look at the end of the prefill's answer.

use bytes::Bytes;
use http::HeaderValue;
use serde::Serialize;

use super::added::{Added, json};
use super::handed::Handed;
use super::pair::{Lacks, Pair, authority};
use super::spec::{Order, Protocol};

const PORT: u16 = 8998;

pub(super) static SPEC: Protocol = Protocol {
    name: "mooncake",
    summary: "vLLM with MooncakeConnector: both legs at once, matched by a transfer id",
    source: "vLLM, vllm/distributed/kv_transfer/kv_connector/v1/mooncake",
    order: Order::Together,
    limits_prefill: true,
    hands_over: false,
    needs_limit: true,
    names_engine: true,
    bootstrap_port: Some(PORT),
    prefill,
    decode,
};

#[derive(Serialize)]
struct Params<'a> {
    do_remote_decode: bool,
    do_remote_prefill: bool,
    transfer_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remote_engine_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remote_bootstrap_addr: Option<String>,
}

fn transfer_id(pair: &Pair<'_>) -> String {
    format!("xfer-{:016x}", pair.id)
}

fn prefill(pair: &Pair<'_>) -> Result<Added, Lacks> {
    let params = Params {
        do_remote_decode: true,
        do_remote_prefill: false,
        transfer_id: transfer_id(pair),
        remote_engine_id: None,
        remote_bootstrap_addr: None,
    };
    let mut added = Added::kv_transfer_params(pair, json(&params));
    added.members.insert(0, Bytes::from_static(b"\"min_tokens\":1,"));
    Ok(match pair.rank {
        Some(rank) => added.header("x-data-parallel-rank", HeaderValue::from(rank)),
        None => added,
    })
}

fn decode(pair: &Pair<'_>, _: Option<&Handed>) -> Result<Added, Lacks> {
    let engine_id = pair.engine_id.ok_or(Lacks {
        protocol: SPEC.name,
        field: "engine_id",
        remedy: "it is read from GET /query of the replica's bootstrap server; check that \
                 `bootstrap` has the port VLLM_MOONCAKE_BOOTSTRAP_PORT and can be reached",
    })?;
    let (host, port) = pair.bootstrap(PORT);
    let params = Params {
        do_remote_decode: false,
        do_remote_prefill: true,
        transfer_id: transfer_id(pair),
        remote_engine_id: Some(engine_id),
        remote_bootstrap_addr: Some(format!("http://{}", authority(host, port))),
    };
    Ok(Added::kv_transfer_params(pair, json(&params)))
}
