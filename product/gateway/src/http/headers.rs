//! Headers of forwarded requests and answers: all pass except hop-by-hop headers.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use meridian_base::RequestId;
use smallvec::SmallVec;

use crate::ids::Ids;
use crate::refusal::REFUSED;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The same for Anthropic's clients, whose errors show it.
pub(crate) const ANTHROPIC_REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
/// Anthropic's header for keys.
pub(crate) const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
pub(crate) const REPLICA: HeaderName = HeaderName::from_static("x-meridian-replica");
/// For peers alone: the id of a replica whose name does not tell it.
pub(crate) const REPLICA_ID: HeaderName = HeaderName::from_static("x-meridian-replica-id");
pub(crate) const PREFILL: HeaderName = HeaderName::from_static("x-meridian-prefill-replica");
pub(crate) const PEER: HeaderName = HeaderName::from_static("x-meridian-peer");
pub(crate) const REGION: HeaderName = HeaderName::from_static("x-meridian-region");
pub(crate) const RESIDENCY: HeaderName = HeaderName::from_static("x-meridian-residency");
pub(crate) const REASON: HeaderName = HeaderName::from_static("x-meridian-reason");
/// The model that answered, if it is a fallback.
pub(crate) const FALLBACK: HeaderName = HeaderName::from_static("x-meridian-fallback");
pub(crate) const PREFIX_MATCH: HeaderName = HeaderName::from_static("x-meridian-prefix-match");
pub(crate) const DRY_RUN: HeaderName = HeaderName::from_static("x-meridian-dry-run");
pub(crate) const TTFT_SLO: HeaderName = HeaderName::from_static("x-slo-ttft-ms");
pub(crate) const ORCA_ASK: HeaderName = HeaderName::from_static("endpoint-load-metrics-format");
pub(crate) const ORCA: HeaderName = HeaderName::from_static("endpoint-load-metrics");

/// Hop-by-hop headers of RFC 9110 section 7.6.1, and others that proxies must not pass.
static HOP: [HeaderName; 9] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    // Not in any standard, but sent by clients that assume a proxy.
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Other headers of a request that are not for its replica. The length is set again: a splice may
/// change it. The gateway scans answers, so they must come uncompressed.
static NOT_FOR_REPLICAS: [HeaderName; 4] =
    [header::HOST, header::CONTENT_LENGTH, header::EXPECT, header::ACCEPT_ENCODING];

/// Other headers of an answer that only a gateway may send.
static NOT_FROM_REPLICAS: [HeaderName; 6] =
    [REFUSED, PEER, REGION, RESIDENCY, FALLBACK, REPLICA_ID];

/// Removes hop-by-hop headers and `others`. Few are present, and comparing the names that are costs
/// less than a lookup of each that may be.
fn strip(headers: &mut HeaderMap, others: &[HeaderName]) {
    // Headers named by Connection are hop-by-hop, too.
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let unwanted = |name: &&HeaderName| [&HOP, others, &named].iter().any(|l| l.contains(name));
    let present: SmallVec<[HeaderName; 4]> = headers.keys().filter(unwanted).cloned().collect();
    for name in &present {
        headers.remove(name);
    }
}

/// Prepares a client's headers for a replica.
pub(crate) fn to_replica(headers: &mut HeaderMap, id: &HeaderValue) {
    strip(headers, &NOT_FOR_REPLICAS);
    // Exactly one, even if the client sent several: it is unknown which of them an engine would
    // read.
    headers.insert(REQUEST_ID, id.clone());
}

/// The header that tells a replica what is left of the request's TTFT objective, in milliseconds: the
/// client's own, which on each hop counts from the moment at which the request is sent.
pub(crate) fn budget(left_ms: u64) -> (HeaderName, HeaderValue) {
    (TTFT_SLO, HeaderValue::from(left_ms))
}

/// Prepares a replica's headers for a client.
pub(crate) fn to_client(headers: &mut HeaderMap, asked_orca: bool, length_changes: bool) {
    // The chunks mark the end of the answer; an additional length would be wrong (RFC 9112 section
    // 6.3).
    let length_changes = length_changes || headers.contains_key(header::TRANSFER_ENCODING);
    strip(headers, &NOT_FROM_REPLICAS);
    if !asked_orca {
        headers.remove(ORCA);
    }
    if length_changes {
        headers.remove(header::CONTENT_LENGTH);
    }
}

/// Removes headers that reveal prefix matches or the fleet. The region stays: it says where a
/// request was served. So does a fallback: it says which model answered.
pub(crate) fn hide(headers: &mut HeaderMap) {
    for name in [&REPLICA, &PREFILL, &PEER, &REASON, &PREFIX_MATCH, &ORCA] {
        headers.remove(name);
    }
}

/// Whether a request has a key of its client.
pub(crate) fn has_key(headers: &HeaderMap) -> bool {
    headers.contains_key(header::AUTHORIZATION) || headers.contains_key(API_KEY)
}

/// Whether an answer is one JSON object and not a stream of events, whatever the request asked for.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    kind(headers).eq_ignore_ascii_case(b"application/json")
}

/// The content type, without its parameters.
fn kind(headers: &HeaderMap) -> &[u8] {
    let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    kind.split(|b| *b == b';').next().unwrap_or_default().trim_ascii()
}

/// Whether an answer is a stream of events.
pub(crate) fn is_events(headers: &HeaderMap) -> bool {
    kind(headers).eq_ignore_ascii_case(b"text/event-stream")
}

/// Whether a JSON answer ends with its connection: only its last brace shows whether it is
/// complete.
pub(crate) fn is_until_close(headers: &HeaderMap) -> bool {
    let framed = [header::CONTENT_LENGTH, header::TRANSFER_ENCODING];
    is_json(headers) && !framed.iter().any(|name| headers.contains_key(name))
}

/// The id that the client sees: its own, or the gateway's.
pub(crate) fn request_id(ids: &Ids, headers: &HeaderMap, id: RequestId) -> HeaderValue {
    headers.get(REQUEST_ID).cloned().unwrap_or_else(|| own_id(ids, id))
}

/// The gateway's id of a request.
pub(crate) fn own_id(ids: &Ids, id: RequestId) -> HeaderValue {
    HeaderValue::from_str(&ids.show(id)).expect("hex digits are a header value")
}

/// Matched tokens divided by prompt tokens, two decimals.
pub(crate) fn prefix_match(matched: u32, prompt: u32) -> HeaderValue {
    let percent = (u64::from(matched) * 100).checked_div(u64::from(prompt)).unwrap_or(0).min(100);
    let text = format!("{}.{:02}", percent / 100, percent % 100);
    HeaderValue::from_str(&text).expect("digits are a header value")
}

#[cfg(test)]
mod tests {
    use super::*;

    // Hop-by-hop headers are removed, including those that Connection names; the rest passes.
    #[test]
    fn hop_headers_stay() {
        let mut h = HeaderMap::new();
        for (k, v) in [
            ("connection", "close, x-hop"),
            ("x-hop", "1"),
            ("te", "trailers"),
            ("authorization", "Bearer k"),
            ("host", "gateway"),
            ("content-length", "9"),
            ("x-anything", "stays"),
        ] {
            h.insert(HeaderName::from_static(k), HeaderValue::from_static(v));
        }
        to_replica(&mut h, &HeaderValue::from_static("req-1"));
        let mut names: Vec<_> = h.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["authorization", "x-anything", "x-request-id"]);
    }

    #[test]
    fn ratios_have_two_decimals() {
        // Matched divided by prompt tokens, never above one, zero for an empty prompt.
        assert_eq!(prefix_match(50, 200), "0.25");
        assert_eq!(prefix_match(7, 7), "1.00");
        assert_eq!(prefix_match(9, 7), "1.00");
        assert_eq!(prefix_match(0, 0), "0.00");
    }
}
