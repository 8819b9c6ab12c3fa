//! The report on an answer to a peer: the usage, for its trailers.

use std::sync::OnceLock;

use meridian_protocol::openai::Usage;

/// The report on one answer.
#[derive(Debug, Default)]
pub(crate) struct Report(OnceLock<Usage>);

impl Report {
    pub(crate) fn set(&self, usage: Usage) {
        // An answer ends only once.
        let _ = self.0.set(usage);
    }

    pub(super) fn get(&self) -> Option<&Usage> {
        self.0.get()
    }
}
