//! Classifies errors of a connection: whether the request was sent, and whether the engine may have
//! died of it.

use std::time::Duration;

use crate::cause;
use crate::fault::{AttemptError, Fault};
use crate::replicas::dial::remedy;
use crate::replicas::http1::{Broken, Unanswered};

/// Why an exchange brought no answer head.
pub(super) fn no_head(unanswered: Unanswered) -> AttemptError {
    let Unanswered { unsent, error, .. } = unanswered;
    if let Broken::Malformed(reason) = error {
        let message = format!(
            "the answer is not HTTP ({reason}); write https:// in `url` if the port has TLS"
        );
        return AttemptError::replica(message).because(cause::BAD_ANSWER);
    }
    let fault = match error.is_cut() {
        _ if unsent => Fault::Unreached,
        true => Fault::Died,
        false => Fault::Replica,
    };
    // Replicas refuse a certificate after the handshake.
    let remedy = match &error {
        Broken::Io(error) => remedy(error),
        _ => "",
    };
    AttemptError::of(fault, format!("{error}{remedy}"))
}

/// The message about a page that did not arrive.
pub(crate) fn late(limit: Duration) -> String {
    format!("no answer within {} ms (timeouts.probe)", limit.as_millis())
}
