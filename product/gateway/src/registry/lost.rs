//! The ways in which a request to a control plane fails.

use std::time::Duration;

/// Why a request to the control plane failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    #[error("cannot connect: {0}")]
    Connect(std::io::Error),
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("no answer within {0:?}")]
    Late(Duration),
    #[error("the control plane is silent")]
    Silent,
    #[error("the control plane closed the watch")]
    Closed,
    #[error("the answer cannot be read: {0}")]
    Form(String),
    #[error("the control plane refuses ({status}): {message}")]
    Refused { status: u16, code: String, message: String },
}

impl Lost {
    /// Whether the control plane failed for a reason that says nothing about this gateway, so that
    /// another one may answer.
    pub(super) fn is_its_own(&self) -> bool {
        !matches!(self, Lost::Refused { status: 400..=499, .. })
    }
}
