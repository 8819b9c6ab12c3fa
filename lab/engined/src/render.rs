//! Response bodies: answers, stream events and errors in vLLM's form.
//!
//! Reply words are plain letters, and ids and model names are escaped once in [`Shape::new`], so
//! events are built as text: a stream writes one per token.

use crate::reply::Reply;
use bytes::Bytes;
use meridian_engine::{StopReason, Usage};
use serde_json::{Value, json};
use std::fmt::Write;

/// Chat or text completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RenderKind {
    Chat,
    Text,
}

/// The common part of all events of one response.
#[derive(Debug)]
pub(crate) struct Shape {
    kind: RenderKind,
    id: String,
    model: String,
    created: u64,
    /// `{"id":…,"object":…,"created":…,"model":…` of a stream event.
    head: String,
}

impl Shape {
    pub(crate) fn new(kind: RenderKind, number: u64, model: &str, created: u64) -> Shape {
        let (prefix, object) = match kind {
            RenderKind::Chat => ("chatcmpl", "chat.completion.chunk"),
            RenderKind::Text => ("cmpl", "text_completion"),
        };
        let id = format!("{prefix}-{number:016x}");
        let head = format!(
            "data: {{\"id\":\"{id}\",\"object\":\"{object}\",\"created\":{created},\"model\":{}",
            json!(model)
        );
        Shape { kind, id, model: model.to_owned(), created, head }
    }

    /// The engine's own id of the request, with vLLM's random suffix: the `remote_request_id` of a
    /// prefill leg.
    pub(crate) fn internal_id(&self, suffix: u32) -> String {
        match self.kind {
            RenderKind::Chat => format!("{}-{suffix:08x}", self.id),
            RenderKind::Text => format!("{}-0-{suffix:08x}", self.id),
        }
    }

    /// The complete answer to a request without streaming, for a leg with the params.
    pub(crate) fn whole(
        &self,
        reply: &Reply,
        why: StopReason,
        usage: &Usage,
        transfer: Option<Value>,
    ) -> Bytes {
        let mut text = String::new();
        reply.write(0, usage.reply_tokens, &mut text);
        let reason = reason(why);
        let (object, choice) = match self.kind {
            RenderKind::Chat => (
                "chat.completion",
                json!({"index": 0, "message": {"role": "assistant", "content": text},
                       "logprobs": null, "finish_reason": reason}),
            ),
            RenderKind::Text => (
                "text_completion",
                json!({"index": 0, "text": text, "logprobs": null, "finish_reason": reason}),
            ),
        };
        let mut body = json!({
            "id": self.id, "object": object, "created": self.created, "model": self.model,
            "choices": [choice], "usage": usage_json(usage),
        });
        if let Some(params) = transfer {
            body["kv_transfer_params"] = params;
        }
        Bytes::from(body.to_string())
    }

    /// The event that opens a chat: only the role.
    pub(crate) fn opening(&self, prompt: Option<u32>, out: &mut String) {
        if self.kind == RenderKind::Chat {
            out.push_str(&self.head);
            out.push_str(
                ",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\
                 \"logprobs\":null,\"finish_reason\":null}]",
            );
            ended(prompt, 0, out);
        }
    }

    /// An event with the tokens from `from` up to `until`, and the end if it is reached.
    pub(crate) fn tokens(
        &self,
        reply: &Reply,
        (from, until): (u32, u32),
        why: Option<StopReason>,
        prompt: Option<u32>,
        out: &mut String,
    ) {
        out.push_str(&self.head);
        out.push_str(match self.kind {
            RenderKind::Chat => ",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"",
            RenderKind::Text => ",\"choices\":[{\"index\":0,\"text\":\"",
        });
        reply.write(from, until, out);
        out.push_str(match self.kind {
            RenderKind::Chat => "\"},\"logprobs\":null,\"finish_reason\":",
            RenderKind::Text => "\",\"logprobs\":null,\"finish_reason\":",
        });
        match why {
            // Writing to a string does not fail.
            Some(why) => {
                let _ = write!(out, "\"{}\"", reason(why));
            }
            None => out.push_str("null"),
        }
        out.push_str("}]");
        ended(prompt, until, out);
    }

    /// The event with the usage.
    pub(crate) fn usage(&self, usage: &Usage, out: &mut String) {
        out.push_str(&self.head);
        let _ = write!(out, ",\"choices\":[],\"usage\":{}}}\n\n", usage_json(usage));
    }
}

/// Ends an event, with the usage so far if the prompt's tokens are given.
fn ended(prompt: Option<u32>, said: u32, out: &mut String) {
    if let Some(prompt) = prompt {
        let total = prompt.saturating_add(said);
        let _ = write!(
            out,
            ",\"usage\":{{\"prompt_tokens\":{prompt},\"total_tokens\":{total},\"completion_tokens\":{said}}}"
        );
    }
    out.push_str("}\n\n");
}

/// The event that ends every stream.
pub(crate) const DONE: &str = "data: [DONE]\n\n";

fn reason(why: StopReason) -> &'static str {
    match why {
        StopReason::Stop => "stop",
        StopReason::Length => "length",
        StopReason::Abort => "abort",
        StopReason::Error => "error",
    }
}

fn usage_json(usage: &Usage) -> serde_json::Value {
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "total_tokens": usage.prompt_tokens + usage.reply_tokens,
        "completion_tokens": usage.reply_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    })
}

/// The error of a request whose KV did not arrive; vLLM's.
pub(crate) fn internal_error() -> Bytes {
    error(500, "InternalServerError", "Internal server error")
}

/// The end of a stream that fails.
pub(crate) fn internal_error_event() -> String {
    let error = internal_error();
    ["data: ", &String::from_utf8_lossy(&error), "\n\n", DONE].concat()
}

/// An error in OpenAI's form.
pub(crate) fn error(code: u16, kind: &str, message: &str) -> Bytes {
    error_at(code, kind, message, None)
}

/// The same, about a field of the request.
pub(crate) fn error_at(code: u16, kind: &str, message: &str, param: Option<&str>) -> Bytes {
    let error = json!({"message": message, "type": kind, "param": param, "code": code});
    Bytes::from(json!({ "error": error }).to_string())
}
