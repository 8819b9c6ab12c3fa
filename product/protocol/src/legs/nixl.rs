//! vLLM with `NixlConnector`: the decode engine reads the prefill engine's blocks.
//!
//! The prefill leg asks for its blocks to be pinned. Its answer names them, and the decode leg gets
//! that object byte for byte. The engine forms differ by version (block ids flat or by cache
//! group), so the object is checked and never rebuilt. It is valid once and for the lease, 30 s by
//! default: blocks fetched later may hold another prompt's KV, without any error.

use bytes::Bytes;

use super::added::Added;
use super::handed::Handed;
use super::pair::{Lacks, Pair};
use super::spec::{Order, Protocol};

pub(super) static SPEC: Protocol = Protocol {
    name: "nixl",
    summary: "vLLM with NixlConnector: prefill, then decode with the parameters of its answer",
    source: "vLLM, vllm/distributed/kv_transfer/kv_connector/v1/nixl",
    order: Order::PrefillFirst,
    limits_prefill: true,
    hands_over: true,
    needs_limit: false,
    names_engine: false,
    bootstrap_port: None,
    prefill,
    decode,
};

/// The nulls are filled in only when a prefill engine reads back from a decode engine.
const PIN: &[u8] = b"{\"do_remote_decode\":true,\"do_remote_prefill\":false,\
    \"remote_engine_id\":null,\"remote_block_ids\":null,\"remote_host\":null,\"remote_port\":null}";

fn prefill(pair: &Pair<'_>) -> Result<Added, Lacks> {
    Ok(Added::kv_transfer_params(pair, Bytes::from_static(PIN)))
}

fn decode(pair: &Pair<'_>, handed: Option<&Handed>) -> Result<Added, Lacks> {
    let added = |handed: &Handed| Added::kv_transfer_params(pair, handed.params());
    Ok(handed.map(added).unwrap_or_default())
}
