//! Errors about request bodies, worded for the client.

use std::fmt;

/// A body that the gateway cannot read. The message names the field, the problem and the remedy. It
/// never quotes the body, since it may end up in a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BadRequest {
    /// The field at fault, as in the `param` of OpenAI's errors.
    pub param: Option<&'static str>,
    /// The problem, its place, and the remedy.
    pub message: String,
}

/// The deepest nesting that is read: deeper than any sensible schema, less than a parser's stack
/// allows.
pub(crate) const MAX_DEPTH: usize = 128;

/// The most messages or input items of one request.
pub(crate) const MAX_ITEMS: usize = 1 << 16;

impl BadRequest {
    pub(crate) fn new(param: Option<&'static str>, message: impl fmt::Display) -> BadRequest {
        BadRequest { param, message: message.to_string() }
    }

    pub(crate) fn missing(param: &'static str, remedy: &str) -> BadRequest {
        BadRequest::new(Some(param), format_args!("`{param}` is missing: send {remedy}"))
    }

    pub(crate) fn kind(param: &'static str, found: &str, wanted: &str) -> BadRequest {
        BadRequest::new(Some(param), format_args!("`{param}` is {found}: send {wanted}"))
    }

    pub(crate) fn deep(param: Option<&'static str>) -> BadRequest {
        let name = param.unwrap_or("a field");
        BadRequest::new(
            param,
            format_args!("`{name}` nests deeper than {MAX_DEPTH} levels: send a flatter value"),
        )
    }

    /// A member inside the value of `param`, such as the role of the third message.
    pub(crate) fn inside(param: &'static str, found: impl fmt::Display) -> BadRequest {
        BadRequest::new(Some(param), format_args!("in `{param}`, {found}"))
    }
}
