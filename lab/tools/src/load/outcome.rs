//! The outcome of a request.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Why a request got no complete answer, as seen by the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// No connection.
    Connect,
    /// Not finished in time.
    Timeout,
    /// A status that is neither 2xx nor one of those below.
    #[serde(rename = "http_4xx")]
    Http4xx,
    /// Too many requests.
    #[serde(rename = "http_429")]
    Http429,
    /// Unavailable.
    #[serde(rename = "http_503")]
    Http503,
    /// Any other server error.
    #[serde(rename = "http_5xx")]
    Http5xx,
    /// The connection broke before the end of the answer.
    BrokenStream,
    /// An error event within a stream.
    ErrorEvent,
    /// A body that is not an answer of this API.
    BadJson,
    /// Cut off by the end of the run.
    Cancelled,
}

impl ErrorKind {
    /// All of them, in the order of reports.
    pub const ALL: [ErrorKind; 10] = [
        ErrorKind::Connect,
        ErrorKind::Timeout,
        ErrorKind::Http4xx,
        ErrorKind::Http429,
        ErrorKind::Http503,
        ErrorKind::Http5xx,
        ErrorKind::BrokenStream,
        ErrorKind::ErrorEvent,
        ErrorKind::BadJson,
        ErrorKind::Cancelled,
    ];

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Connect => "connect",
            ErrorKind::Timeout => "timeout",
            ErrorKind::Http4xx => "http_4xx",
            ErrorKind::Http429 => "http_429",
            ErrorKind::Http503 => "http_503",
            ErrorKind::Http5xx => "http_5xx",
            ErrorKind::BrokenStream => "broken_stream",
            ErrorKind::ErrorEvent => "error_event",
            ErrorKind::BadJson => "bad_json",
            ErrorKind::Cancelled => "cancelled",
        }
    }

    /// The kind of an error status.
    pub(super) fn of_status(status: u16) -> ErrorKind {
        match status {
            429 => ErrorKind::Http429,
            503 => ErrorKind::Http503,
            500..=599 => ErrorKind::Http5xx,
            _ => ErrorKind::Http4xx,
        }
    }
}

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A complete answer.
    Ok,
    /// The client disconnected on purpose.
    Aborted,
    /// Anything else.
    Error(ErrorKind),
}

/// Tokens as the engine counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) prompt: u64,
    pub(super) completion: u64,
    /// `None` if the engine does not report them.
    pub(super) cached: Option<u64>,
}

/// The client's view of one request, filled in during the exchange.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Whether the answer's headers arrived.
    pub(super) answered: bool,
    pub(super) replica: Option<http::HeaderValue>,
    /// Whether a peer of the addressed gateway served it.
    pub(super) forwarded: bool,
    /// From the start to the first token.
    pub(super) ttft: Option<Duration>,
    /// Events with a piece of the answer.
    pub(super) pieces: u64,
    pub(crate) usage: Option<Usage>,
    /// The answer's text.
    pub(super) reply: String,
}

impl Seen {
    /// Tokens of the reply: the engine's count, or the number of pieces received.
    pub(super) fn tokens(&self) -> u64 {
        self.usage.map_or(self.pieces, |u| u.completion)
    }

    /// Time per token after the first of a streamed answer that took `e2e`.
    pub(super) fn tpot(&self, e2e: Duration) -> Option<Duration> {
        let further = u32::try_from(self.tokens().checked_sub(1)?).ok()?;
        e2e.saturating_sub(self.ttft?).checked_div(further)
    }
}
