//! Answers to request heads that the HTTP library cannot parse: a status, the problem, the limit
//! and the remedy, as JSON like every other refusal. It also closes connections in a way that lets
//! the client still read the answer.

use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use meridian_protocol::openai::Endpoint;
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;

use super::framing::Left;
use crate::metrics::Metrics;
use crate::refusal::Refusal;
use crate::settings::Settings;

/// How hyper's part of a connection ended.
pub(super) enum End {
    /// In the normal course of HTTP, or with an error of hyper's.
    Http(hyper::Result<()>),
    /// Its first request did not come within `timeouts.client`.
    Silent,
}

/// A client's connection.
pub(crate) trait Client {
    /// Its socket, below TLS.
    fn tcp(&mut self) -> &mut TcpStream;
}

impl Client for TcpStream {
    fn tcp(&mut self) -> &mut TcpStream {
        self
    }
}

impl Client for TlsStream<TcpStream> {
    fn tcp(&mut self) -> &mut TcpStream {
        self.get_mut().0
    }
}

/// Bytes of `limits.headers` per allowed header field.
const PER_FIELD: usize = 1024;
/// Fields that are always allowed, as in Envoy. hyper parses so many on the stack; for more, each head
/// reserves 64 bytes a field.
const FIELDS: usize = 100;

/// Longest wait for a client to read its answer and hang up, and most bytes read from it meanwhile.
/// Closing a socket with unread bytes resets it, and the answer may be lost.
const LINGER: Duration = Duration::from_secs(1);
const MOST_LINGER: usize = 1 << 20;

/// Most header fields of an HTTP/1 request.
pub(crate) fn most_fields(head_bytes: usize) -> usize {
    (head_bytes / PER_FIELD).clamp(FIELDS, 4096)
}

/// Ends a connection: reports the problem if the client can still receive it, lets it read, and
/// closes.
pub(super) async fn last_words<S>(settings: &Settings, metrics: &Metrics, left: Left<S>, end: &End)
where
    S: AsyncWrite + Unpin + Client,
{
    let Left { mut io, held_back, in_head } = left;
    let refusal = (held_back || in_head).then(|| refusal(settings, end)).flatten();
    if let Some(refusal) = refusal {
        metrics.refused(&refusal);
        let answer = written(refusal.response(Endpoint::Other));
        // The client may be gone; then the error does not matter.
        let _ = timeout(LINGER, io.write_all(&answer)).await;
        let _ = timeout(LINGER, io.shutdown()).await;
    }
    let _ = timeout(LINGER, read_on(io.tcp())).await;
}

/// Reads and discards until the client hangs up. Below TLS: what was encrypted does not matter, and a
/// session that is closed or has failed must not be read.
async fn read_on(tcp: &mut TcpStream) {
    let mut read = 0;
    // On the heap, since on the stack it would be part of every connection's task.
    let mut sink = vec![0; 8192];
    while read < MOST_LINGER {
        match tcp.read(&mut sink).await {
            Ok(n) if n > 0 => read += n,
            _ => return,
        }
    }
}

/// The refusal to send, if any.
fn refusal(settings: &Settings, end: &End) -> Option<Refusal> {
    let error = match end {
        End::Silent => return Some(Refusal::too_slow("head", settings.timeouts.client.0)),
        End::Http(Ok(())) => return None,
        End::Http(Err(error)) => error,
    };
    if error.is_timeout() {
        return Some(Refusal::too_slow("head", settings.timeouts.client.0));
    }
    if error.is_parse_too_large() {
        return Some(too_large(settings.head_bytes));
    }
    if error.is_incomplete_message() {
        let message = "the connection ended before the end of the request's headers; end them with an empty line";
        return Some(Refusal::new(StatusCode::BAD_REQUEST, "head_cut_short", message));
    }
    error.is_parse().then(|| malformed(&error.to_string()))
}

fn too_large(bytes: usize) -> Refusal {
    let fields = most_fields(bytes);
    Refusal::new(
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        "headers_too_large",
        format!(
            "the request has more than {bytes} bytes of headers, more than {fields} headers, or an impossible Content-Length; send less, or raise limits.headers in the gateway's configuration (one header per {PER_FIELD} bytes)"
        ),
    )
}

/// Chosen by hyper's description, which is the only thing that distinguishes the cases.
fn malformed(description: &str) -> Refusal {
    let bad =
        |message: &'static str| Refusal::new(StatusCode::BAD_REQUEST, "malformed_request", message);
    match description {
        "invalid HTTP method parsed" => bad(
            "the request does not start with a method: send `POST /v1/chat/completions HTTP/1.1`, and use http:// unless this port has TLS",
        ),
        "invalid URI" => bad(
            "the path of the request is invalid: send printable ASCII, and percent-encode all other characters",
        ),
        "invalid HTTP version parsed" => Refusal::new(
            StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            "unknown_http_version",
            "the request line is not `METHOD /path VERSION` with a supported version: send HTTP/1.1, HTTP/1.0, or HTTP/2 by prior knowledge or ALPN, and a path without spaces",
        ),
        "invalid content-length parsed" => {
            bad("Content-Length is not a number, or two headers differ: send one, in digits")
        }
        "invalid transfer-encoding parsed" => bad(
            "Transfer-Encoding does not end with `chunked`: send only `chunked`, or a Content-Length",
        ),
        "unexpected transfer-encoding parsed" => {
            bad("HTTP/1.0 has no Transfer-Encoding: send HTTP/1.1, or a Content-Length")
        }
        "invalid HTTP header parsed" => bad(
            "a header is not `name: value`: send no space before the colon, no continued lines and no control characters, and end each line with CRLF",
        ),
        _ => bad("the request is not HTTP: send HTTP/1.1 (RFC 9112)"),
    }
}

/// A refusal as bytes of HTTP/1.1.
fn written(response: Response<Bytes>) -> Vec<u8> {
    let (head, body) = response.into_parts();
    let mut answer = format!("HTTP/1.1 {}\r\n", head.status).into_bytes();
    for (name, value) in &head.headers {
        answer.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    let rest = format!("content-length: {}\r\nconnection: close\r\n\r\n", body.len());
    answer.extend_from_slice(rest.as_bytes());
    answer.extend_from_slice(&body);
    answer
}
