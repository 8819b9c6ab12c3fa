//! The trace that a request belongs to: W3C Trace Context (the headers `traceparent` and
//! `tracestate`), and the decision to record it.
//!
//! A request that comes with a valid `traceparent` stays in that trace, and its sender has decided
//! whether it is recorded. Any other request starts a trace, of which a share is recorded. The
//! decision travels with the request to replicas and peers, so a trace is recorded everywhere or
//! nowhere. Span ids below the gateway's own are derived from it: the id that a replica received is
//! found again when the spans are built.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{HeaderMap, HeaderName, HeaderValue};
use meridian_base::mix;
use meridian_config::Traces;

pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;
/// The flags that are forwarded: recorded, and random (level 2 of the recommendation).
const KNOWN: u8 = 3;

/// A recorded request's place in its trace.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) id: u128,
    /// The sender's span.
    pub(crate) parent: Option<u64>,
    /// The request's own span.
    span: u64,
    flags: u8,
    /// Its sender's `tracestate`, if it is valid text.
    pub(crate) state: Option<HeaderValue>,
    /// The collector of its spans.
    pub(crate) to: Arc<Traces>,
}

impl Trace {
    /// The id of the request's `n`th span; 0 is its own.
    pub(crate) fn span(&self, n: u64) -> u64 {
        if n == 0 { self.span } else { mix(self.span, n).max(1) }
    }

    pub(crate) fn flags(&self) -> u8 {
        self.flags
    }

    /// The `traceparent` for the receiver of the `n`th span.
    pub(crate) fn header(&self, n: u64) -> HeaderValue {
        header(self.id, self.span(n), self.flags)
    }
}

/// Gives out trace and span ids.
pub(crate) struct TraceIds {
    seed: [u64; 2],
    next: AtomicU64,
}

impl TraceIds {
    /// `seed` is random: no other process has the same.
    pub(crate) fn new(seed: [u64; 2]) -> TraceIds {
        TraceIds { seed, next: AtomicU64::new(1) }
    }

    /// Joins a request to its sender's trace, or starts one, and writes the headers for its
    /// receivers. None if it is not recorded.
    pub(crate) fn join(&self, to: &Arc<Traces>, headers: &mut HeaderMap) -> Option<Trace> {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        let span = mix(self.seed[0], n).max(1);
        match Parent::of(headers) {
            Some(Parent { flags, .. }) if flags & SAMPLED == 0 => None,
            Some(Parent { id, span: parent, flags }) => {
                let state = joined(headers);
                let (parent, flags) = (Some(parent), flags & KNOWN);
                Some(Trace { id, parent, span, flags, state, to: to.clone() })
            }
            None => {
                headers.remove(&TRACESTATE);
                let id = (u128::from(mix(self.seed[1], n)) << 64) | u128::from(mix(span, n).max(1));
                let is_sampled = is_sampled(id, to.sample);
                let flags = if is_sampled { SAMPLED } else { 0 };
                headers.insert(TRACEPARENT, header(id, span, flags));
                let trace = Trace { id, parent: None, span, flags, state: None, to: to.clone() };
                is_sampled.then_some(trace)
            }
        }
    }
}

/// All `tracestate` headers as one, as the recommendation combines them.
fn joined(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut all = headers.get_all(&TRACESTATE).iter();
    let (one, more) = (all.next()?, all.next());
    if more.is_none() {
        return Some(one.clone());
    }
    let all: Vec<&[u8]> = headers.get_all(&TRACESTATE).iter().map(HeaderValue::as_bytes).collect();
    HeaderValue::from_bytes(&all.join(&b","[..])).ok()
}

/// As other samplers decide: by the last eight bytes of the id.
fn is_sampled(id: u128, share: f64) -> bool {
    let place = (id as u64) >> 1;
    (place as f64) < share * (1u64 << 63) as f64
}

fn header(id: u128, span: u64, flags: u8) -> HeaderValue {
    assert!(span != 0, "a span of zeros is none, and its receiver would start another trace");
    let text = format!("00-{id:032x}-{span:016x}-{flags:02x}");
    HeaderValue::try_from(text).expect("hex digits and dashes are a header value")
}

/// A valid `traceparent`.
#[derive(Debug, PartialEq, Eq)]
struct Parent {
    id: u128,
    span: u64,
    flags: u8,
}

impl Parent {
    /// None unless there is exactly one, and a valid one.
    fn of(headers: &HeaderMap) -> Option<Parent> {
        let mut all = headers.get_all(&TRACEPARENT).iter();
        let (one, further) = (all.next()?, all.next());
        if further.is_some() { None } else { Parent::read(one.as_bytes()) }
    }

    /// `00-<32 hex digits>-<16>-<2>`; a later version may append fields after another dash.
    fn read(text: &[u8]) -> Option<Parent> {
        let (version, rest) = hex(text, 2)?;
        let (id, rest) = hex(rest.strip_prefix(b"-")?, 32)?;
        let (span, rest) = hex(rest.strip_prefix(b"-")?, 16)?;
        let (flags, rest) = hex(rest.strip_prefix(b"-")?, 2)?;
        let ends = match version {
            0 => rest.is_empty(),
            255 => false,
            _ => rest.is_empty() || rest.starts_with(b"-"),
        };
        let is_valid = ends && id != 0 && span != 0;
        is_valid.then_some(Parent { id, span: span as u64, flags: flags as u8 })
    }
}

/// The number in the first `digits`, which are lower-case hex digits, and the rest.
fn hex(text: &[u8], digits: usize) -> Option<(u128, &[u8])> {
    let (number, rest) = text.split_at_checked(digits)?;
    let is_hex = |b: &u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    let number = std::str::from_utf8(number).ok().filter(|n| n.bytes().all(|b| is_hex(&b)))?;
    Some((u128::from_str_radix(number, 16).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use meridian_config::OtlpProtocol;

    use super::*;

    const THEIRS: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn to(sample: f64) -> Arc<Traces> {
        let (endpoint, service_name) = (String::new(), String::new());
        Arc::new(Traces { endpoint, protocol: OtlpProtocol::Grpc, sample, service_name })
    }

    fn headers(parents: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for parent in parents {
            headers.append(TRACEPARENT, HeaderValue::from_str(parent).unwrap());
        }
        headers.insert(TRACESTATE, HeaderValue::from_static("vendor=1"));
        headers
    }

    fn sent(headers: &HeaderMap) -> &str {
        headers[TRACEPARENT].to_str().unwrap()
    }

    // A sampled trace of the sender's has spans of our own below it, whatever our share; one that is
    // not sampled passes unchanged, with its state.
    #[test]
    fn the_senders_trace() {
        let ids = TraceIds::new([1, 2]);
        let mut sampled = headers(&[THEIRS]);
        let trace = ids.join(&to(0.0), &mut sampled).unwrap();
        assert_eq!(trace.id, 0x0af7651916cd43dd8448eb211c80319c);
        assert_eq!((trace.parent, sent(&sampled)), (Some(0xb7ad6b7169203331), THEIRS));
        assert_eq!(trace.state.as_ref().unwrap(), "vendor=1");
        let parts = [0, 1, 2].map(|n| trace.header(n).to_str().unwrap().to_owned());
        for part in &parts {
            assert!(part.starts_with("00-0af7651916cd43dd8448eb211c80319c-"), "{part}");
            assert!(part.ends_with("-01") && !part.contains("b7ad6b7169203331"), "{part}");
        }
        assert!(parts[0] != parts[1] && parts[1] != parts[2]);
        let mut unsampled = headers(&[&THEIRS.replace("-01", "-00")]);
        assert!(ids.join(&to(1.0), &mut unsampled).is_none());
        assert_eq!(sent(&unsampled), THEIRS.replace("-01", "-00"));
        assert_eq!(unsampled[TRACESTATE], "vendor=1");
    }

    // A malformed header, two of them, and none start another trace, without the state.
    #[test]
    fn a_new_trace() {
        let ids = TraceIds::new([1, 2]);
        let (long, short) = (format!("{THEIRS}-00"), &THEIRS[..54]);
        for parents in [
            &[][..],
            &[THEIRS, THEIRS],
            &[""],
            &["00-aa-bb-01"],
            &[&long],
            &[short],
            &[&THEIRS.to_uppercase()],
            &[&THEIRS.replace("00-0a", "ff-0a")],
            &[&THEIRS.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32))],
            &[&THEIRS.replace("b7ad6b7169203331", &"0".repeat(16))],
            &[&THEIRS.replace("0af7", "+af7")],
        ] {
            let mut headers = headers(parents);
            let trace = ids.join(&to(1.0), &mut headers).unwrap();
            assert_eq!((trace.parent, headers.get(TRACESTATE)), (None, None), "{parents:?}");
            assert_eq!(headers.get_all(TRACEPARENT).iter().count(), 1);
            let sent = Parent::of(&headers).unwrap();
            assert_eq!((sent.id, sent.span, sent.flags), (trace.id, trace.span(0), SAMPLED));
            assert_ne!(trace.id, 0x0af7651916cd43dd8448eb211c80319c);
        }
    }

    // A later version is read as the fields that are known of it.
    #[test]
    fn later_versions() {
        let later = format!("{}-what-the-future-will-be-like", THEIRS.replacen("00", "cc", 1));
        let parent = Parent::read(later.as_bytes()).unwrap();
        assert_eq!((parent.span, parent.flags), (0xb7ad6b7169203331, 1));
        assert_eq!(Parent::read(later.replace("-what", ".what").as_bytes()), None);
    }

    // The share of new traces that is recorded, and the decision in the header for the receivers.
    #[test]
    fn shares() {
        let ids = TraceIds::new([3, 4]);
        for (share, least, most) in [(0.0, 0, 0), (0.1, 850, 1150), (1.0, 10_000, 10_000)] {
            let to = to(share);
            let mut recorded = 0;
            for _ in 0..10_000 {
                let mut headers = HeaderMap::new();
                let is_recorded = ids.join(&to, &mut headers).is_some();
                assert_eq!(sent(&headers).ends_with("-01"), is_recorded);
                recorded += usize::from(is_recorded);
            }
            assert!((least..=most).contains(&recorded), "{share}: {recorded}");
        }
    }
}
