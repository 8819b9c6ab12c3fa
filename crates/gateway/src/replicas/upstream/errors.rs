//! Classifies errors of a connection: whether the request was sent, and whether the engine may have
//! died of it.

use std::time::Duration;

use crate::cause;
use crate::error::{AttemptError, Fault};
use crate::replicas::dial::remedy;

/// Why an exchange brought no answer head.
pub(super) fn no_head(error: &hyper::Error, unsent: bool) -> AttemptError {
    if error.is_parse() {
        let message = format!(
            "the answer is not HTTP ({}); write https:// in `url` if the port has TLS",
            describe(error)
        );
        return AttemptError::replica(message).because(cause::BAD_ANSWER);
    }
    let fault = match is_cut(error) {
        _ if unsent => Fault::Unreached,
        true => Fault::Died,
        false => Fault::Replica,
    };
    AttemptError::of(fault, format!("{}{}", describe(error), remedy_of(error)))
}

/// The remedy if TLS is the cause: replicas refuse a certificate after the handshake.
fn remedy_of(error: &hyper::Error) -> &'static str {
    let mut cause = std::error::Error::source(error);
    while let Some(next) = cause {
        if let Some(error) = next.downcast_ref::<std::io::Error>() {
            return remedy(error);
        }
        cause = next.source();
    }
    ""
}

/// Whether the connection ended, as opposed to invalid data.
pub(crate) fn is_cut(error: &hyper::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let mut cause = std::error::Error::source(error);
    let mut kind = None;
    while let Some(next) = cause {
        kind = next.downcast_ref::<std::io::Error>().map(std::io::Error::kind).or(kind);
        cause = next.source();
    }
    let ended = [BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof];
    error.is_incomplete_message() || error.is_canceled() || kind.is_some_and(|k| ended.contains(&k))
}

/// The message about a page that did not arrive.
pub(crate) fn late(limit: Duration) -> String {
    format!("no answer within {} ms (timeouts.probe)", limit.as_millis())
}

/// An error with its innermost cause: hyper's outermost says little.
pub(super) fn describe(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    format!("{error}: {cause}")
}
