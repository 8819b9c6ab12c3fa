//! Fields that engines and their routers exchange inside a request: which blocks to fetch from
//! which engine, where to meet, which rank to use. A client that sends such a field can stop an
//! engine.

/// An engine's private fields and headers, which the gateway removes from client requests.
#[derive(Clone, Copy, Debug)]
pub struct Private {
    /// Members of a body.
    pub fields: &'static [&'static str],
    /// Prefixes of members, for fields of the same kind that later versions add; each with the name
    /// under which they are all counted.
    pub families: &'static [(&'static str, &'static str)],
    /// Members whose value is merged into the request or into its sampling parameters.
    pub containers: &'static [&'static str],
    /// Headers, in lower case.
    pub headers: &'static [&'static str],
    /// Substrings of `x-request-id` that an engine reads as addresses.
    pub request_id: &'static [&'static str],
}

impl Private {
    /// No private fields.
    pub const NONE: Private =
        Private { fields: &[], families: &[], containers: &[], headers: &[], request_id: &[] };
}

/// Private fields of software outside the table (Dynamo and llm-d's router, with TensorRT-LLM's field that
/// Dynamo fills, too), and `extra_body`, which OpenAI's client should have unpacked.
pub(super) static ROUTERS: Private = Private {
    fields: &[
        "disaggregated_params",
        "backend_instance_id",
        "prefill_worker_id",
        "decode_worker_id",
        "prefill_dp_rank",
        "dp_rank",
    ],
    containers: &["extra_body", "nvext"],
    headers: &[
        "x-prefiller-host-port",
        "x-prefiller-url",
        "x-encoder-hosts-ports",
        "x-data-parallel-host-port",
        "x-kv-cache-source-host-port",
        "x-worker-instance-id",
        "x-prefill-instance-id",
        "x-dp-rank",
        "x-prefill-dp-rank",
    ],
    ..Private::NONE
};
