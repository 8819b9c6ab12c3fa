//! Checks of a request's head that the HTTP library leaves to its user, made before the body is
//! read.

use http::header::{self, HeaderMap, HeaderValue};
use http::{Request, StatusCode, Version};

use crate::refusal::Refusal;

/// Refuses a client's request because of its head.
pub(crate) fn check<B>(request: &Request<B>) -> Result<(), Refusal> {
    let headers = request.headers();
    if request.version() == Version::HTTP_11 {
        one_host(headers)?;
    }
    plain_transfer(headers)?;
    plain_content(headers)
}

/// RFC 9112 section 3.2. Two servers on a request's path that pick different hosts can be
/// exploited.
fn one_host(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let found = match (hosts.next(), hosts.next()) {
        (Some(_), None) => return Ok(()),
        (None, _) => "no Host header",
        _ => "several Host headers",
    };
    Err(Refusal::new(
        StatusCode::BAD_REQUEST,
        "invalid_host",
        format!("the request has {found}: send exactly one"),
    ))
}

/// RFC 9112 section 6.1: only chunked bodies can be decoded, no other transfer coding.
fn plain_transfer(headers: &HeaderMap) -> Result<(), Refusal> {
    let chunked = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"chunked");
    if headers.get_all(header::TRANSFER_ENCODING).iter().all(chunked) {
        return Ok(());
    }
    Err(Refusal::new(
        StatusCode::NOT_IMPLEMENTED,
        "unknown_transfer_encoding",
        "Transfer-Encoding has more than `chunked`: send the body without another encoding, in chunks or with a Content-Length",
    ))
}

/// A compressed body is refused, not inflated: a few kilobytes may expand to gigabytes, and engines
/// accept none either.
fn plain_content(headers: &HeaderMap) -> Result<(), Refusal> {
    let plain = |value: &HeaderValue| {
        let codings = value.as_bytes().split(|b| *b == b',').map(<[u8]>::trim_ascii);
        codings.into_iter().all(|c| c.is_empty() || c.eq_ignore_ascii_case(b"identity"))
    };
    if headers.get_all(header::CONTENT_ENCODING).iter().all(plain) {
        return Ok(());
    }
    Err(Refusal::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "compressed_body",
        "the gateway does not accept compressed bodies (Content-Encoding): send the body uncompressed, without this header",
    ))
}
