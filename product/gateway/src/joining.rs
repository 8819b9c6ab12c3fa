//! Whether this gateway still waits for what the other gateways of its region know.
//!
//! A gateway that starts with an empty index sends prompts where nothing of them is cached. So it says
//! that it is ready only when one of the others has told it everything, or after a limited time. It
//! serves requests that come anyway.

use std::sync::atomic::{AtomicBool, Ordering};

/// Ends once.
#[derive(Debug)]
pub(crate) struct Joining(AtomicBool);

impl Joining {
    /// Whether there are others to wait for.
    pub(crate) fn new(waits: bool) -> Joining {
        Joining(AtomicBool::new(waits))
    }

    /// Whether it still waits.
    pub(crate) fn waits(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns whether it waited until now.
    pub(crate) fn end(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}
