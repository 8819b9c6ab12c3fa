//! Reads a request's body in full, with limits on its size, on the bytes of all bodies, and on
//! time.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::http::limits::{Bound, Permit};
use crate::refusal::Refusal;

/// A body and the permits for its bytes.
pub(crate) struct Collected {
    pub(crate) bytes: Bytes,
    pub(crate) permits: Vec<Permit>,
}

/// Reads `body` in full: at most `limit` bytes, within `patience`, with permits of `bodies`.
pub(crate) async fn collect(
    headers: &HeaderMap,
    body: Incoming,
    patience: Duration,
    limit: u64,
    bodies: &Bound,
) -> Result<Collected, Refusal> {
    match tokio::time::timeout(patience, read(headers, body, limit, bodies)).await {
        Ok(result) => result,
        Err(_) => Err(Refusal::too_slow("body", patience)),
    }
}

async fn read(
    headers: &HeaderMap,
    mut body: Incoming,
    limit: u64,
    bodies: &Bound,
) -> Result<Collected, Refusal> {
    let announced: Option<u64> = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|v| v.to_str().ok())
        .and_then(|v| v.parse().ok());
    if announced.is_some_and(|n| n > limit) {
        return Err(Refusal::too_large(limit));
    }
    let mut permits = Vec::new();
    let mut take = |n: usize| match bodies.take(n) {
        Some(permit) => {
            permits.push(permit);
            Ok(())
        }
        None => Err(Refusal::busy("limits.bodies")),
    };
    if let Some(n) = announced {
        take(n as usize)?;
    }
    // A body that arrives in one piece is not copied.
    let mut whole: Option<Bytes> = None;
    let mut buffer = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|e| unreadable(&e))?.into_data() else { continue };
        let so_far = whole.as_ref().map_or(buffer.len(), Bytes::len);
        if (so_far + data.len()) as u64 > limit {
            return Err(Refusal::too_large(limit));
        }
        if announced.is_none() {
            take(data.len())?;
        }
        match whole.take() {
            None if buffer.is_empty() => whole = Some(data),
            None => buffer.extend_from_slice(&data),
            Some(first) => {
                buffer.reserve(announced.unwrap_or(0) as usize);
                buffer.extend_from_slice(&first);
                buffer.extend_from_slice(&data);
            }
        }
    }
    let bytes = whole.unwrap_or_else(|| buffer.freeze());
    assert!(bytes.len() as u64 <= limit, "{} bytes passed a limit of {limit}", bytes.len());
    Ok(Collected { bytes, permits })
}

/// A truncated body, or one with invalid chunks. hyper's description is not quoted: it may contain
/// bytes of the request.
fn unreadable(error: &hyper::Error) -> Refusal {
    let kind = error.source().and_then(|e| e.downcast_ref::<io::Error>()).map(io::Error::kind);
    let (code, message) = match kind {
        Some(io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput) => (
            "malformed_chunks",
            "the chunks of the body are malformed: send each as its size in hex digits, CRLF, the bytes and CRLF, and end with 0, CRLF and CRLF",
        ),
        _ => ("body_cut_short", "the body is shorter than its Content-Length; send all of it"),
    };
    Refusal::new(StatusCode::BAD_REQUEST, code, message)
}
