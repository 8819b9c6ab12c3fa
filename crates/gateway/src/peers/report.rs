//! What is said of an answer to a peer, beside it: the usage, for its trailers.

use std::sync::OnceLock;

use meridian_wire::openai::Usage;

/// What is said of an answer beside it.
#[derive(Debug, Default)]
pub(crate) struct Report(OnceLock<Usage>);

impl Report {
    pub(crate) fn set(&self, usage: Usage) {
        // An answer has one end.
        let _ = self.0.set(usage);
    }

    pub(super) fn get(&self) -> Option<&Usage> {
        self.0.get()
    }
}
