//! Why a replica or a peer does not answer, in one word: the causes of its down intervals.

use std::error::Error;
use std::io::{self, ErrorKind};

/// The port accepts no connection: the process has ended, or is still starting.
pub(crate) const REFUSED: &str = "refused";
/// The connection broke.
pub(crate) const RESET: &str = "reset";
/// No answer in time: it hangs, or the network drops packets.
pub(crate) const TIMEOUT: &str = "timeout";
/// There is no way to its host.
pub(crate) const UNREACHABLE: &str = "unreachable";
/// It answers with a server error.
pub(crate) const SERVER_ERROR: &str = "5xx";
/// It answers with another status than success.
pub(crate) const STATUS: &str = "status";
/// Its answer can't be read.
pub(crate) const BAD_ANSWER: &str = "bad_answer";
/// A certificate is not accepted.
pub(crate) const CERTIFICATE: &str = "certificate";
/// It closed the connection in order.
pub(crate) const CLOSED: &str = "closed";
/// It does not want this gateway.
pub(crate) const REJECTED: &str = "rejected";
/// Anything else.
pub(crate) const FAILED: &str = "failed";

/// The cause in an error of the operating system.
pub(crate) fn of_io(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::ConnectionRefused => REFUSED,
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe
        | ErrorKind::UnexpectedEof => RESET,
        ErrorKind::TimedOut => TIMEOUT,
        ErrorKind::InvalidData => CERTIFICATE,
        _ => UNREACHABLE,
    }
}

/// The cause in the innermost error of the operating system, if there is one.
pub(crate) fn of(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let mut next = Some(error);
    let mut found = None;
    while let Some(error) = next {
        found = error.downcast_ref::<io::Error>().map(of_io).or(found);
        next = error.source();
    }
    found
}

/// An error's text without its numbers. Some errors have the time in them, and so differ each time,
/// although nothing has changed: one about an expired certificate counts the seconds.
pub(crate) fn undated(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // The innermost error of the operating system counts, wherever it is wrapped.
    #[test]
    fn innermost() {
        #[derive(Debug, thiserror::Error)]
        #[error("outer")]
        struct Outer(#[source] io::Error);
        assert_eq!(of(&Outer(ErrorKind::ConnectionRefused.into())), Some(REFUSED));
        let nested = io::Error::other(Outer(ErrorKind::ConnectionReset.into()));
        assert_eq!(of(&nested), Some(RESET));
        assert_eq!(of(&std::fmt::Error), None);
    }

    // Defect log-rate: the errors of one expired certificate are the same, whenever they happen.
    #[test]
    fn errors_have_no_dates() {
        let expired = |now: u64| {
            format!("certificate expired: verification time {now} (UNIX), {} seconds ago", now - 9)
        };
        assert_eq!(undated(&expired(1_764_450_000)), undated(&expired(1_764_450_107)));
        assert_ne!(undated("certificate expired"), undated("unknown issuer"));
    }
}
