//! Reads a request's body whole, within bounds: its size, the bytes of all bodies, and time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::limits::Permit;
use crate::refuse::Refusal;
use crate::shared::Shared;

/// A body and the permits for its bytes.
pub(crate) struct Collected {
    pub(crate) bytes: Bytes,
    pub(crate) permits: Vec<Permit>,
}

/// Reads `body` whole.
pub(crate) async fn collect(
    shared: &Shared,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<Collected, Refusal> {
    let patience: Duration = shared.config.timeouts.client.0;
    match tokio::time::timeout(patience, read(shared, headers, body)).await {
        Ok(result) => result,
        Err(_) => Err(Refusal::new(
            StatusCode::REQUEST_TIMEOUT,
            "client_too_slow",
            format!("the body did not arrive within {} ms", patience.as_millis()),
        )),
    }
}

async fn read(
    shared: &Shared,
    headers: &HeaderMap,
    mut body: Incoming,
) -> Result<Collected, Refusal> {
    let limit = shared.config.limits.body.0;
    let announced: Option<u64> = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|v| v.to_str().ok())
        .and_then(|v| v.parse().ok());
    if announced.is_some_and(|n| n > limit) {
        return Err(Refusal::too_large(limit));
    }
    let mut permits = Vec::new();
    let mut take = |n: usize| match shared.bodies.take(n) {
        Some(permit) => {
            permits.push(permit);
            Ok(())
        }
        None => Err(Refusal::busy("limits.bodies")),
    };
    if let Some(n) = announced {
        take(n as usize)?;
    }
    // A body that comes in one piece is passed on as it came, without a copy.
    let mut whole: Option<Bytes> = None;
    let mut buffer = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| gone())?.into_data() else { continue };
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
    Ok(Collected { bytes: whole.unwrap_or_else(|| buffer.freeze()), permits })
}

fn gone() -> Refusal {
    Refusal::new(
        StatusCode::BAD_REQUEST,
        "body_cut_short",
        "the body ended before its announced length",
    )
}
