//! Errors in the form that the client's library expects, as a body or as the last event of a
//! stream.

use bytes::Bytes;
use serde::Serialize;

use super::endpoint::Endpoint;

#[derive(Serialize)]
struct OpenAi<'a> {
    error: OpenAiError<'a>,
}

#[derive(Serialize)]
struct OpenAiError<'a> {
    message: &'a str,
    r#type: &'static str,
    param: Option<&'a str>,
    code: &'a str,
}

#[derive(Serialize)]
struct Anthropic<'a> {
    r#type: &'static str,
    error: AnthropicError<'a>,
}

#[derive(Serialize)]
struct AnthropicError<'a> {
    r#type: &'static str,
    message: &'a str,
}

/// An error body in OpenAI's form. The type follows from the HTTP status; `code` is for programs,
/// `message` names the cause and the remedy.
#[must_use]
pub fn error_json(status: u16, code: &str, message: &str, param: Option<&str>) -> Bytes {
    let r#type = match status {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    };
    json(&OpenAi { error: OpenAiError { message, r#type, param, code } })
}

/// An error body in Anthropic's form.
#[must_use]
pub fn anthropic_error_json(status: u16, message: &str) -> Bytes {
    let r#type = match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        504 => "timeout_error",
        400..=499 => "invalid_request_error",
        _ => "api_error",
    };
    json(&Anthropic { r#type: "error", error: AnthropicError { r#type, message } })
}

/// An error body in the form of `endpoint`.
#[must_use]
pub fn error_body(
    endpoint: Endpoint,
    status: u16,
    code: &str,
    message: &str,
    param: Option<&str>,
) -> Bytes {
    match endpoint.is_anthropic() {
        true => anthropic_error_json(status, message),
        false => error_json(status, code, message, param),
    }
}

/// An error that ends a stream after its start: an event in the form of `endpoint`.
#[must_use]
pub fn error_event(endpoint: Endpoint, status: u16, code: &str, message: &str) -> Bytes {
    let body = error_body(endpoint, status, code, message, None);
    Bytes::from([event_name(endpoint), b"data: ", &body, b"\n\n"].concat())
}

/// The same from the body of an error, if that is a JSON object.
#[must_use]
pub fn error_event_of(endpoint: Endpoint, body: &[u8]) -> Option<Bytes> {
    let object: &serde_json::value::RawValue = serde_json::from_slice(body).ok()?;
    if !object.get().starts_with('{') {
        return None;
    }
    let name = event_name(endpoint);
    // Each line of the body is a line of the event's data.
    let data = object.get().lines().flat_map(|line| ["data: ", line, "\n"]);
    let event: String = data.chain(["\n"]).collect();
    Some(Bytes::from([name, event.as_bytes()].concat()))
}

/// The line that names an error event.
fn event_name(endpoint: Endpoint) -> &'static [u8] {
    match endpoint {
        Endpoint::Messages | Endpoint::Responses => b"event: error\n",
        _ => b"",
    }
}

fn json(value: &impl Serialize) -> Bytes {
    Bytes::from(serde_json::to_vec(value).expect("strings and numbers always serialize"))
}
