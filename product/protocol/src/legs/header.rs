//! llm-d: a sidecar beside the decode engine sends the prefill leg itself.
//!
//! The gateway only names the prefill replica in a header, which the sidecar checks against its
//! allowlist and removes. Fallbacks and retries are the sidecar's.

use http::HeaderValue;

use super::added::Added;
use super::handed::Handed;
use super::pair::{Lacks, Pair, authority};
use super::spec::{Order, Protocol};

pub(super) static SPEC: Protocol = Protocol {
    name: "header",
    summary: "llm-d's routing sidecar: one request, with the prefill replica in a header",
    source: "llm-d-router, pkg/sidecar/proxy",
    order: Order::DecodeOnly,
    limits_prefill: false,
    hands_over: false,
    needs_limit: false,
    names_engine: false,
    bootstrap_port: None,
    prefill: |_| Ok(Added::default()),
    decode,
};

fn decode(pair: &Pair<'_>, _: Option<&Handed>) -> Result<Added, Lacks> {
    let host = HeaderValue::try_from(authority(pair.host, pair.port)).map_err(|_| Lacks {
        protocol: SPEC.name,
        field: "host",
        remedy: "its host is not a valid header value; check the replica's `url`",
    })?;
    Ok(Added::default().header("x-prefiller-host-port", host))
}
