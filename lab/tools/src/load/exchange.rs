//! Sends one request and times its answer.

use std::time::Instant;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use meridian_fleet::Lines;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::http::{Http, MAX_BODY};
use super::outcome::{ErrorKind, Seen, Usage};

/// Sends `request` and reads its answer into `seen`; TTFT counts from `from`.
pub(crate) async fn exchange(
    http: &Http,
    request: Request<Full<Bytes>>,
    stream: bool,
    from: Instant,
    seen: &mut Seen,
) -> Result<(), ErrorKind> {
    let response = http.request(request).await.map_err(|e| match e.is_connect() {
        true => ErrorKind::Connect,
        false => ErrorKind::BrokenStream,
    })?;
    seen.answered = true;
    let (parts, body) = response.into_parts();
    seen.replica = parts.headers.get("x-meridian-replica").cloned();
    seen.forwarded = parts.headers.contains_key("x-meridian-peer");
    if !parts.status.is_success() {
        // Read to its end, so that the connection stays usable.
        let _ = Limited::new(body, MAX_BODY).collect().await;
        return Err(ErrorKind::of_status(parts.status.as_u16()));
    }
    match stream {
        true => read_stream(body, from, seen).await,
        false => read_whole(body, seen).await,
    }
}

/// Reads a stream to its very end, `[DONE]` or not, so that the connection stays usable.
async fn read_stream(mut body: Incoming, from: Instant, seen: &mut Seen) -> Result<(), ErrorKind> {
    let (mut lines, mut end) = (Lines::default(), None);
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { break };
        let Some(data) = frame.data_ref() else { continue };
        let now = from.elapsed();
        let mut each = |payload: &[u8]| {
            let before = seen.pieces;
            end = end.or(read_event(payload, seen));
            if before == 0 && seen.pieces > 0 {
                seen.ttft = Some(now);
            }
            true
        };
        if lines.push(data, &mut each).is_err() {
            return Err(ErrorKind::BadJson);
        }
    }
    end.unwrap_or(Err(ErrorKind::BrokenStream))
}

/// Reads one event; `Some` when it determines the request's end.
fn read_event(payload: &[u8], seen: &mut Seen) -> Option<Result<(), ErrorKind>> {
    if payload == b"[DONE]" {
        return Some(Ok(()));
    }
    let Ok(answer) = serde_json::from_slice::<ExchangeAnswer>(payload) else {
        return Some(Err(ErrorKind::BadJson));
    };
    if answer.error.is_some() {
        return Some(Err(ErrorKind::ErrorEvent));
    }
    take(answer, seen);
    None
}

async fn read_whole(body: Incoming, seen: &mut Seen) -> Result<(), ErrorKind> {
    let body = Limited::new(body, MAX_BODY).collect().await;
    let body = body.map_err(|_| ErrorKind::BrokenStream)?.to_bytes();
    let answer: ExchangeAnswer = serde_json::from_slice(&body).map_err(|_| ErrorKind::BadJson)?;
    if answer.error.is_some() || answer.choices.is_empty() {
        return Err(ErrorKind::BadJson);
    }
    take(answer, seen);
    Ok(())
}

/// Extracts the counted parts of an answer or of a chunk.
fn take(answer: ExchangeAnswer, seen: &mut Seen) {
    if let Some(usage) = answer.usage {
        seen.usage = Some(Usage {
            prompt: usage.prompt_tokens,
            completion: usage.completion_tokens,
            cached: usage.prompt_tokens_details.and_then(|d| d.cached_tokens),
        });
    }
    let Some(choice) = answer.choices.into_iter().next() else { return };
    let Some(said) = choice.delta.or(choice.message) else { return };
    let content = said.content.unwrap_or_default();
    let thought = [&said.reasoning_content, &said.reasoning];
    let thinks = thought.iter().any(|t| t.as_ref().is_some_and(|t| !t.is_empty()));
    if !content.is_empty() || thinks || said.tool_calls.is_some() {
        seen.pieces += 1;
    }
    seen.reply.push_str(&content);
}

/// A chat completion, or a chunk of one.
#[derive(Deserialize)]
struct ExchangeAnswer {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<AnswerUsage>,
    error: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<Said>,
    message: Option<Said>,
}

#[derive(Deserialize)]
struct Said {
    content: Option<String>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    tool_calls: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct AnswerUsage {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(payloads: &[&str]) -> (Option<Result<(), ErrorKind>>, Seen) {
        let (mut seen, mut end) = (Seen::default(), None);
        for payload in payloads {
            end = end.or(read_event(payload.as_bytes(), &mut seen));
        }
        (end, seen)
    }

    // The opening event with a role and no text is not a token; reasoning text and a tool call are.
    #[test]
    fn what_counts_as_a_token() {
        let (end, seen) = events(&[
            r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#,
            r#"{"choices":[{"delta":{"reasoning_content":"hm"}}]}"#,
            r#"{"choices":[{"delta":{"content":"a"}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":null}"#,
        ]);
        assert_eq!((end, seen.pieces, seen.reply.as_str()), (None, 3, "a"));
        assert_eq!(seen.tokens(), 3);
    }

    // Usage takes precedence over the counted pieces, and if an engine does not report its cache
    // the cached tokens are unknown and not 0.
    #[test]
    fn usage_wins() {
        let usage = r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5}}"#;
        let (_, seen) = events(&[usage]);
        assert_eq!(seen.tokens(), 5);
        assert_eq!(seen.usage, Some(Usage { prompt: 9, completion: 5, cached: None }));
        let usage = r#"{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5,
            "prompt_tokens_details":{"cached_tokens":4}}}"#;
        assert_eq!(events(&[usage]).1.usage.and_then(|u| u.cached), Some(4));
    }

    // The first event that determines a stream's end counts.
    #[test]
    fn ends() {
        let failed = Some(Err(ErrorKind::ErrorEvent));
        assert_eq!(events(&["[DONE]"]).0, Some(Ok(())));
        assert_eq!(events(&[r#"{"error":{"message":"x"}}"#, "[DONE]"]).0, failed);
        assert_eq!(events(&["not json"]).0, Some(Err(ErrorKind::BadJson)));
        assert_eq!(events(&[r#"{"error":null,"choices":[]}"#]).0, None);
    }
}
