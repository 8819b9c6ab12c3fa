//! Error answers of engines: which ones go to the client unchanged, and the parts of the others
//! that are kept while the request is retried on another replica.
//!
//! A 5xx may be caused by the replica or the request. Some statuses say which. For the others a
//! second replica is tried: if both answer the same, the request is the cause, and the client gets
//! the engine's own message. A 502 or 504 comes from a proxy in front of an engine, so it is never
//! attributed to the request.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderValue, StatusCode, header, response};
use http_body_util::BodyExt;

/// Not implemented (llama.cpp's embeddings, newer vLLM), HTTP version not supported, extension
/// missing: any replica with the same engine would answer the same.
const OF_THE_REQUEST: [StatusCode; 3] =
    [StatusCode::NOT_IMPLEMENTED, StatusCode::HTTP_VERSION_NOT_SUPPORTED, StatusCode::NOT_EXTENDED];

/// Most bytes kept of an error body; engines' errors are far shorter.
const MOST: usize = 64 << 10;
/// Timeout for the body of an error.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most bytes of an engine's message in a refusal.
const MOST_WORDS: usize = 512;

/// An answer status's meaning for the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Passed to the client: an answer, or the client's mistake.
    Passes,
    /// The engine is full.
    Full,
    /// An error, or a redirect, which is not followed.
    Fails,
    /// Not a final answer.
    Unfinished,
}

/// Anthropic's status of an overloaded server.
const OVERLOADED: u16 = 529;

/// What a status means. `is_ours` says whether the replica got the gateway's key in place of the client's: then a refusal
/// of the key is nothing that the client could mend. TGI answers 424 if a generation failed.
pub(crate) fn meaning(status: StatusCode, is_ours: bool) -> Meaning {
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Meaning::Full,
        s if s.as_u16() == OVERLOADED => Meaning::Full,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if is_ours => Meaning::Fails,
        StatusCode::FAILED_DEPENDENCY => Meaning::Fails,
        s if OF_THE_REQUEST.contains(&s) => Meaning::Passes,
        s if s.is_server_error() || s.is_redirection() => Meaning::Fails,
        s if s.is_informational() => Meaning::Unfinished,
        _ => Meaning::Passes,
    }
}

/// An engine's error answer.
#[derive(Clone, Debug)]
pub(crate) struct EngineError {
    pub(crate) head: response::Parts,
    pub(crate) body: Bytes,
    /// Whether the body is complete.
    whole: bool,
}

impl EngineError {
    /// Reads the body of an error, up to the limit.
    pub(crate) async fn read(
        head: response::Parts,
        mut flow: impl http_body::Body<Data = Bytes> + Unpin,
    ) -> EngineError {
        let mut body = BytesMut::new();
        let read = async {
            while let Some(frame) = flow.frame().await {
                let Ok(frame) = frame else { return false };
                let Ok(data) = frame.into_data() else { continue };
                let room = MOST - body.len();
                body.extend_from_slice(&data[..data.len().min(room)]);
                if data.len() > room {
                    return false;
                }
            }
            true
        };
        let whole = tokio::time::timeout(PATIENCE, read).await.unwrap_or(false);
        EngineError { head, body: body.freeze(), whole }
    }

    /// An error that an engine reports inside a success, as if it had answered with this status.
    /// `said` is its JSON.
    pub(crate) fn told(mut head: response::Parts, status: StatusCode, said: Bytes) -> EngineError {
        head.status = status;
        head.headers.remove(header::CONTENT_LENGTH);
        head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        EngineError { head, body: said, whole: true }
    }

    /// Whether it is a redirect.
    pub(crate) fn is_redirect(&self) -> bool {
        self.head.status.is_redirection()
    }

    /// Whether two replicas failed in the same way, so the request is the cause.
    pub(crate) fn is_same(&self, other: &EngineError) -> bool {
        let status = self.head.status;
        // A proxy's, or the gateway's own key is wrong at both.
        let of_no_request = matches!(
            status,
            StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT | StatusCode::UNAUTHORIZED
        );
        let both = self.whole && other.whole;
        both && !of_no_request && status == other.head.status && self.body == other.body
    }

    /// The engine's message, for the client only: it may quote the request.
    pub(crate) fn words(&self) -> Option<String> {
        let json: Option<serde_json::Value> = serde_json::from_slice(&self.body).ok();
        let said = json.as_ref().and_then(|json| {
            let error = json.get("error").unwrap_or(json);
            let message = error.get("message").or(json.get("message")).unwrap_or(error);
            message.as_str()
        });
        let plain = || std::str::from_utf8(&self.body).ok().filter(|_| json.is_none());
        let said = said.or_else(plain).map(str::trim)?;
        let shown = !said.is_empty() && !said.chars().any(|c| c.is_control() && c != '\n');
        let end = (0..=said.len().min(MOST_WORDS)).rev().find(|at| said.is_char_boundary(*at))?;
        shown.then(|| said[..end].to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(status: u16, body: &'static str, whole: bool) -> EngineError {
        let (mut head, ()) = http::Response::new(()).into_parts();
        head.status = StatusCode::from_u16(status).expect("a status");
        EngineError { head, body: Bytes::from_static(body.as_bytes()), whole }
    }

    // Each status has one meaning: client mistakes and requests that no replica can serve pass,
    // other 5xx and redirects fail.
    #[test]
    fn meanings() {
        for (status, expected) in [
            (200, Meaning::Passes),
            (400, Meaning::Passes),
            (404, Meaning::Passes),
            (429, Meaning::Full),
            (503, Meaning::Full),
            (529, Meaning::Full),
            (401, Meaning::Passes),
            (424, Meaning::Fails),
            (500, Meaning::Fails),
            (502, Meaning::Fails),
            (504, Meaning::Fails),
            (507, Meaning::Fails),
            (501, Meaning::Passes),
            (505, Meaning::Passes),
            (510, Meaning::Passes),
            (307, Meaning::Fails),
            (304, Meaning::Fails),
            (101, Meaning::Unfinished),
        ] {
            let status = StatusCode::from_u16(status).expect("a status");
            assert_eq!(meaning(status, false), expected, "{status}");
        }
    }

    // Two errors are the same if status and complete body are, unless they come from a proxy.
    #[test]
    fn sameness() {
        let one = || error(500, "{\"error\":1}", true);
        assert!(one().is_same(&one()));
        assert!(!one().is_same(&error(500, "{\"error\":2}", true)));
        assert!(!one().is_same(&error(507, "{\"error\":1}", true)));
        assert!(!one().is_same(&error(500, "{\"error\":1}", false)));
        assert!(!error(502, "bad", true).is_same(&error(502, "bad", true)));
    }

    // The message is found in the forms that engines use, is cut to a limit, and is only text.
    #[test]
    fn messages() {
        for (body, words) in [
            (r#"{"error":{"message":"no KV left","code":500}}"#, Some("no KV left")),
            (r#"{"error":"no KV left"}"#, Some("no KV left")),
            (r#"{"object":"error","message":"no KV left"}"#, Some("no KV left")),
            ("Internal Server Error", Some("Internal Server Error")),
            ("", None),
            ("{}", None),
            ("\u{1b}[31mred", None),
        ] {
            assert_eq!(error(500, body, true).words().as_deref(), words, "{body}");
        }
        let long: &'static str = "é".repeat(1000).leak();
        assert_eq!(error(500, long, true).words().map(|w| w.len()), Some(MOST_WORDS));
    }
}
