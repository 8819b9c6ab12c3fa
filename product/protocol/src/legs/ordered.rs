//! Engines with a shared store of KV: two ordinary requests, one after the other.
//!
//! The store is keyed by content: the prefill engine writes the prompt's KV, the decode engine
//! finds it. Nothing names the other leg, so nothing can be wrong, only missing. So it is with
//! LMCache as a shared cache, MooncakeStore, HF3FS, FlexKV and vLLM's `ExampleConnector`.

use super::added::Added;
use super::spec::{Order, Protocol};

pub(super) static SPEC: Protocol = Protocol {
    name: "ordered",
    summary: "engines with a shared store, such as LMCache: prefill, then decode, with no additions",
    source: "vLLM, vllm/distributed/kv_transfer/kv_connector/v1",
    order: Order::PrefillFirst,
    limits_prefill: true,
    hands_over: false,
    needs_limit: false,
    names_engine: false,
    bootstrap_port: None,
    prefill: |_| Ok(Added::default()),
    decode: |_, _| Ok(Added::default()),
};
