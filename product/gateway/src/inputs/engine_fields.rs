//! Handles fields and headers that only engines and their routers may send: removed and counted, or
//! refused. The list comes from each engine's file (`meridian_protocol::engines`).

use std::sync::LazyLock;

use http::StatusCode;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use meridian_config::EngineFields;
use meridian_protocol::engines::private;
use meridian_protocol::openai::Splices;

use crate::http::headers::REQUEST_ID;
use crate::metrics::Metrics;
use crate::refusal::Refusal;

/// The private headers of engines and their routers, which select the engine for prefill, encoding
/// or KV, or a rank or worker.
static HEADERS: LazyLock<Vec<HeaderName>> = LazyLock::new(|| {
    private().flat_map(|words| words.headers).map(|name| HeaderName::from_static(name)).collect()
});

/// Removes the headers and returns their names.
pub(crate) fn take(headers: &mut HeaderMap) -> Vec<&'static str> {
    let mut taken = Vec::new();
    // Most requests have none, and checking their header names costs less than ten lookups.
    if headers.keys().any(|name| name.as_str().starts_with("x-") && HEADERS.contains(name)) {
        let names = HEADERS.iter().filter(|name| headers.remove(*name).is_some());
        taken.extend(names.map(HeaderName::as_str));
    }
    if headers.get_all(REQUEST_ID).iter().any(names_engines) {
        headers.remove(REQUEST_ID);
        taken.push("x-request-id");
    }
    taken
}

fn names_engines(id: &HeaderValue) -> bool {
    let mut marks = private().flat_map(|words| words.request_id);
    marks.any(|mark| memchr::memmem::find(id.as_bytes(), mark.as_bytes()).is_some())
}

/// Counts the private fields and headers of a request, and refuses it if so configured.
pub(crate) fn judge(
    mode: EngineFields,
    metrics: &Metrics,
    headers: &[&'static str],
    body: &Splices,
) -> Result<(), Refusal> {
    headers.iter().for_each(|name| metrics.engine_field(name));
    body.engine_fields().for_each(|field| metrics.engine_field(field.family()));
    if mode == EngineFields::Strip {
        return Ok(());
    }
    if let Some(&name) = headers.first() {
        let what = match name == REQUEST_ID {
            true => format!("the header `{name}` has addresses of engines"),
            false => format!("the header `{name}` is for engines only"),
        };
        return Err(refusal(name, &what));
    }
    let Some(field) = body.engine_fields().next() else { return Ok(()) };
    let what = format!("the field `{}` is for engines only", field.name());
    Err(refusal(field.name(), &what))
}

fn refusal(name: &'static str, what: &str) -> Refusal {
    let message = format!(
        "{what}; remove it, or set `engine_fields: strip` in the gateway's configuration, which removes it"
    );
    Refusal { param: Some(name), ..Refusal::new(StatusCode::BAD_REQUEST, "engine_field", message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A header is removed however its name is written, and however often it occurs; near misses
    // stay.
    #[test]
    fn headers_go() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("X-Prefiller-Host-Port", "10.0.0.9:8000"),
            ("x-PREFILLER-host-port", "10.0.0.8:8000"),
            ("X-data-parallel-rank", "3"),
            ("X-Request-Id", "innocent"),
            ("X-Request-Id", "cmpl-___prefill_addr_10.0.0.9:1___decode_addr_10.0.0.8:2_x"),
            ("x-prefiller", "stays"),
            ("x-dp-ranks", "stays"),
        ] {
            headers.append(
                HeaderName::from_bytes(name.as_bytes()).expect("a name"),
                HeaderValue::from_static(value),
            );
        }
        let taken = take(&mut headers);
        assert_eq!(taken, ["x-prefiller-host-port", "x-data-parallel-rank", "x-request-id"]);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["x-dp-ranks", "x-prefiller"]);
        assert!(take(&mut headers).is_empty());
    }
}
