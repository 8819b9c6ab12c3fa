//! The head of an answer (RFC 9112, sections 4 and 6.3): its fields, how its body is framed, and
//! whether the connection can be used again.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version, response};

use super::Broken;
use super::body::Body;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
/// Most fields of a head.
const MOST_FIELDS: usize = 100;
/// Most bytes of a head.
pub(super) const MOST_BYTES: usize = 256 << 10;

/// The head of an answer.
pub(super) struct Head {
    pub(super) parts: response::Parts,
    pub(super) body: Body,
    /// Whether another request may follow on the connection.
    pub(super) keeps: bool,
    /// Bytes of the head.
    pub(super) len: usize,
}

/// Reads the head at the start of `input`; none if it is not complete.
pub(super) fn read(input: &[u8], method: &Method) -> Result<Option<Head>, Broken> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut answer = httparse::Response::new(&mut fields);
    let len = match answer.parse(input) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) if input.len() < MOST_BYTES => return Ok(None),
        Ok(httparse::Status::Partial) => {
            return Err(Broken::Malformed("its head is longer than 256 KiB"));
        }
        Err(error) => return Err(Broken::Malformed(reason(error))),
    };
    let (mut parts, ()) = Response::new(()).into_parts();
    let code = answer.code.expect("a complete head has a status");
    parts.status = StatusCode::from_u16(code).map_err(|_| Broken::Malformed("invalid status"))?;
    let is_old = answer.version == Some(0);
    parts.version = if is_old { Version::HTTP_10 } else { Version::HTTP_11 };
    parts.headers = headers(&input[..len], answer.headers)?;
    let body = framing(method, &parts, is_old)?;
    let keeps = body != Body::UntilClose
        && parts.status != StatusCode::SWITCHING_PROTOCOLS
        && names(&parts.headers, if is_old { "keep-alive" } else { "close" }) == is_old;
    Ok(Some(Head { parts, body, keeps, len }))
}

/// The fields of a head. Their values share one copy of it.
fn headers(head: &[u8], fields: &[httparse::Header<'_>]) -> Result<HeaderMap, Broken> {
    let shared = Bytes::copy_from_slice(head);
    let mut headers = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes());
        let start = field.value.as_ptr().addr() - head.as_ptr().addr();
        let value = shared.slice(start..start + field.value.len());
        let (Ok(name), Ok(value)) = (name, HeaderValue::from_maybe_shared(value)) else {
            return Err(Broken::Malformed("invalid header field"));
        };
        headers.append(name, value);
    }
    Ok(headers)
}

/// The framing of the body. Chunks go before a length, as RFC 9112 says; HTTP/1.0 has none, so an
/// answer that claims to have is faulty (section 6.1).
fn framing(method: &Method, parts: &response::Parts, is_old: bool) -> Result<Body, Broken> {
    let status = parts.status;
    let bodiless = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status);
    if method == Method::HEAD || status.is_informational() || bodiless {
        return Ok(Body::Length(0));
    }
    let coding = parts.headers.get_all(TRANSFER_ENCODING).iter().next_back();
    if let Some(coding) = coding {
        if is_old {
            return Err(Broken::Malformed("transfer-encoding in HTTP/1.0"));
        }
        let last = coding.as_bytes().rsplit(|byte| *byte == b',').next().unwrap_or_default();
        let chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
        return Ok(if chunked { Body::chunked() } else { Body::UntilClose });
    }
    let mut length = None;
    for value in parts.headers.get_all(CONTENT_LENGTH) {
        let digits = value.as_bytes();
        let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let text = std::str::from_utf8(digits).ok().filter(|_| is_number);
        let next: u64 = text.and_then(|text| text.parse().ok()).ok_or(LENGTH)?;
        if length.replace(next).is_some_and(|before| before != next) {
            return Err(LENGTH);
        }
    }
    Ok(length.map_or(Body::UntilClose, Body::Length))
}

const LENGTH: Broken = Broken::Malformed("invalid content-length");

/// Whether `connection` has this word.
fn names(headers: &HeaderMap, word: &str) -> bool {
    let values = headers.get_all(CONNECTION).into_iter();
    let mut words = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    words.any(|one| one.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
}

/// For how long the replica keeps an idle connection: `keep-alive: timeout=5`.
pub(super) fn rests(headers: &HeaderMap) -> Option<Duration> {
    let words = headers.get(KEEP_ALIVE)?.to_str().ok()?.split(',');
    let mut members = words.filter_map(|word| word.split_once('='));
    let (_, seconds) = members.find(|(name, _)| name.trim().eq_ignore_ascii_case("timeout"))?;
    seconds.trim().trim_matches('"').parse().ok().map(Duration::from_secs)
}

fn reason(error: httparse::Error) -> &'static str {
    match error {
        httparse::Error::HeaderName => "invalid header field name",
        httparse::Error::HeaderValue => "invalid header field value",
        httparse::Error::NewLine => "invalid line end",
        httparse::Error::Status => "invalid status",
        httparse::Error::Token => "invalid character in the head",
        httparse::Error::TooManyHeaders => "more than 100 header fields",
        httparse::Error::Version => "invalid HTTP version",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Result<Option<Head>, Broken> {
        read(text.as_bytes(), &Method::POST)
    }

    fn framed(lines: &str) -> Result<(Body, bool), String> {
        let text = format!("{lines}\r\n\r\n").replace('\n', "\r\n").replace("\r\r", "\r");
        match head(&text) {
            Ok(head) => head.map(|head| (head.body, head.keeps)).ok_or("partial".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    // The body is framed as RFC 9112 says, and the connection kept where that allows it.
    #[test]
    fn framing_by_fields() {
        let cases = [
            ("HTTP/1.1 200 OK\ncontent-length: 5", Body::Length(5), true),
            ("HTTP/1.1 200 OK\nContent-Length: 5\ncontent-length: 5", Body::Length(5), true),
            ("HTTP/1.1 200\ntransfer-encoding: gzip, Chunked", Body::chunked(), true),
            (
                "HTTP/1.1 200 OK\ncontent-length: 5\ntransfer-encoding: chunked",
                Body::chunked(),
                true,
            ),
            ("HTTP/1.1 200 OK\ntransfer-encoding: gzip", Body::UntilClose, false),
            ("HTTP/1.1 200 OK", Body::UntilClose, false),
            ("HTTP/1.1 200 OK\nconnection: x, Close\ncontent-length: 5", Body::Length(5), false),
            ("HTTP/1.1 204 No Content\ncontent-length: 5", Body::Length(0), true),
            ("HTTP/1.1 304 Not Modified", Body::Length(0), true),
            ("HTTP/1.1 101 Switching Protocols", Body::Length(0), false),
            ("HTTP/1.1 103 Early Hints", Body::Length(0), true),
            ("HTTP/1.0 200 OK\ncontent-length: 5", Body::Length(5), false),
            ("HTTP/1.0 200 OK\nconnection: keep-alive\ncontent-length: 5", Body::Length(5), true),
        ];
        for (lines, body, keeps) in cases {
            assert_eq!(framed(lines), Ok((body, keeps)), "{lines}");
        }
        let no_body = read(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", &Method::HEAD);
        let no_body = no_body.expect("it is well-formed").expect("it is complete");
        assert_eq!((no_body.body, no_body.keeps), (Body::Length(0), true));
    }

    #[test]
    fn malformed_heads() {
        for (lines, reason) in [
            ("HTTP/2 200 OK", "invalid HTTP version"),
            ("\u{15}\u{3}\u{1}\u{0}\u{2}", "invalid HTTP version"),
            ("HTTP/1.1 20 OK", "invalid status"),
            ("HTTP/1.1 099 OK", "invalid status"),
            ("HTTP/1.1 200 OK\ncontent-length: -1", "invalid content-length"),
            ("HTTP/1.1 200 OK\ncontent-length: +1", "invalid content-length"),
            ("HTTP/1.1 200 OK\ncontent-length: 1\ncontent-length: 2", "invalid content-length"),
            ("HTTP/1.0 200 OK\ntransfer-encoding: chunked", "transfer-encoding in HTTP/1.0"),
            ("HTTP/1.1 200 OK\nno colon", "invalid header field name"),
        ] {
            assert_eq!(framed(lines), Err(reason.to_owned()), "{lines}");
        }
        let many: String = (0..=MOST_FIELDS).map(|i| format!("\nx-{i}: 1")).collect();
        let many = framed(&format!("HTTP/1.1 200 OK{many}"));
        assert_eq!(many, Err("more than 100 header fields".to_owned()));
        let long = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(MOST_BYTES));
        assert!(head(&long).is_err_and(|error| error.to_string().contains("256 KiB")));
    }

    // Every value is the field's own, whichever part of the head it came from.
    #[test]
    fn fields_keep_their_values() {
        let text = "HTTP/1.1 200 OK\r\nX-A: one\r\nx-empty:\r\nX-a:  two \r\n\r\nbody";
        let head = head(text).expect("it is well-formed").expect("it is complete");
        assert_eq!(head.len, text.len() - 4);
        let all: Vec<_> = head.parts.headers.get_all("x-a").iter().collect();
        assert_eq!(all, ["one", "two"]);
        assert_eq!(head.parts.headers["x-empty"], "");
        for end in 0..text.len() - 4 {
            let cut = super::read(&text.as_bytes()[..end], &Method::POST).expect("well-formed");
            assert!(cut.is_none(), "{end}");
        }
    }
}
