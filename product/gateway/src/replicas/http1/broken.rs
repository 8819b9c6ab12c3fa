//! Errors of an answer that does not arrive in full.

use std::io;

/// The reason why an answer ends before it is complete.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// The replica closed the connection.
    #[error("the connection closed before the end of the answer")]
    Closed,
    /// The operating system or TLS reports an error.
    #[error("the connection broke: {0}")]
    Io(#[from] io::Error),
    /// The bytes are not HTTP/1.1.
    #[error("{0}")]
    Malformed(&'static str),
    /// A peer's answer, which hyper reads.
    #[error(transparent)]
    Peer(#[from] hyper::Error),
}

impl Broken {
    /// Whether the connection ended, as opposed to invalid data.
    pub(crate) fn is_cut(&self) -> bool {
        match self {
            Broken::Closed => true,
            Broken::Io(error) => has_ended(error.kind()),
            Broken::Malformed(_) => false,
            Broken::Peer(error) => {
                let kind = innermost(error).map(io::Error::kind);
                error.is_incomplete_message() || error.is_canceled() || kind.is_some_and(has_ended)
            }
        }
    }
}

fn has_ended(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(kind, BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

fn innermost(error: &hyper::Error) -> Option<&io::Error> {
    let mut cause = std::error::Error::source(error);
    let mut found = None;
    while let Some(next) = cause {
        found = next.downcast_ref::<io::Error>().or(found);
        cause = next.source();
    }
    found
}
