//! A request of one token, whose answer tells about the engine's flags and its clock.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use meridian_protocol::engines::Engine;
use meridian_protocol::openai::{Answer, Endpoint, Usage};

use crate::http::parts::Parts;
use crate::replicas::member::Member;
use crate::replicas::upstream::{Request, Upstream};

/// Time for the answer: the engine may be busy.
const PATIENCE: Duration = Duration::from_secs(20);
/// Largest answer, bytes.
const MOST: usize = 1 << 20;
/// Difference of clocks that is reported. A `Date` header has whole seconds, and takes its time.
const APART: Duration = Duration::from_secs(5);

/// The answer to a request.
pub(super) struct Told {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
    /// How far its clock is from this one, if that matters.
    apart: Option<Duration>,
}

/// The problems that a replica's answer shows, without the name of the replica.
pub(super) async fn problems(
    upstream: &Upstream,
    member: &Member,
    engine: Engine,
    model: &str,
) -> Vec<String> {
    let (mut path, mut endpoint) = ("/v1/chat/completions", Endpoint::ChatCompletions);
    let mut answer = send(upstream, member, path, request(endpoint, model)).await;
    // A model without a chat template answers completions only.
    if matches!(&answer, Ok(told) if told.status.is_client_error()) {
        (path, endpoint) = ("/v1/completions", Endpoint::Completions);
        answer = send(upstream, member, path, request(endpoint, model)).await;
    }
    let told = match answer {
        Err(why) => return vec![format!("POST {path}: {why}")],
        Ok(told) if !told.status.is_success() => {
            let status = told.status;
            return vec![format!(
                "POST {path}: {status} for a request of one token; the engine's log has the reason"
            )];
        }
        Ok(told) => told,
    };
    let mut problems = Vec::new();
    let hides = usage(endpoint, told.body).is_none_or(|usage| usage.cached_tokens.is_none());
    if let (true, Some(remedy)) = (hides, engine.cached_tokens) {
        problems.push(format!(
            "its answers do not report cached tokens, so the gateway cannot correct its guesses; {remedy}"
        ));
    }
    problems.extend(
        told.apart.map(|apart| {
            format!("its clock is {} s off this one; run NTP on both", apart.as_secs())
        }),
    );
    problems
}

/// Sends a request with a JSON body; why it failed, with the remedy.
pub(super) async fn send(
    upstream: &Upstream,
    member: &Member,
    path: &str,
    body: Bytes,
) -> Result<Told, String> {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let body = Parts::single(body);
    let whole = async {
        let (method, headers, body) = (&Method::POST, &headers, &body);
        let cut = &AtomicBool::new(false);
        let request = Request { method, path, headers, added: &[], body, cut };
        let sent = upstream.send(&member.dial, request).await;
        let answered = sent.map_err(|error| error.message)?;
        let apart = apart(&answered.head.headers);
        let body = Limited::new(answered.body, MOST).collect().await;
        let body = body.map_err(|error| format!("the answer stopped early: {error}"))?;
        Ok(Told { status: answered.head.status, body: body.to_bytes(), apart })
    };
    let late = || {
        let limit = PATIENCE.as_secs();
        format!("no answer within {limit} s; is the engine overloaded, or stuck?")
    };
    tokio::time::timeout(PATIENCE, whole).await.map_err(|_| late())?
}

fn request(endpoint: Endpoint, model: &str) -> Bytes {
    let mut body = serde_json::json!({"model": model, "max_tokens": 1, "stream": false});
    match endpoint {
        Endpoint::Completions => body["prompt"] = "Hello".into(),
        _ => body["messages"] = serde_json::json!([{"role": "user", "content": "Hello"}]),
    }
    body.to_string().into()
}

fn usage(endpoint: Endpoint, body: Bytes) -> Option<Usage> {
    let mut answer = Answer::new(endpoint, false, false, false);
    answer.feed(body);
    answer.finish().usage
}

fn apart(headers: &HeaderMap) -> Option<Duration> {
    let date = headers.get(header::DATE)?.to_str().ok()?;
    let there = httpdate::parse_http_date(date).ok()?;
    #[expect(clippy::disallowed_methods, reason = "the clock itself is compared")]
    let here = SystemTime::now();
    let apart = here.duration_since(there).unwrap_or_else(|error| error.duration());
    (apart > APART).then_some(apart)
}
