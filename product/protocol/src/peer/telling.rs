//! Sending a region's state to one peer: the difference to the state sent before.
//!
//! A stream loses nothing and keeps the order, so the sender knows the peer's state; a new stream
//! starts with everything.

use std::sync::Arc;

use meridian_base::Digest;

use super::news::News;
use super::page::Page;

/// State sent to one peer on one stream.
#[derive(Debug, Default)]
pub struct Telling {
    version: u64,
    /// The newest digest that was sent.
    digest: Option<Arc<Digest>>,
}

impl Telling {
    /// The news that brings the peer up to date with a page.
    pub fn news(&mut self, page: &Page) -> News {
        let digest = page.digest();
        let base = self.version;
        self.version += 1;
        let changes = page.since(self.digest.as_ref());
        let before = self.digest.as_ref().map(|before| &before.places);
        let places = (before != Some(&digest.places)).then(|| digest.places.clone());
        self.digest = Some(digest.clone());
        News {
            version: self.version,
            base,
            held: digest.held,
            eligible: digest.eligible,
            usable: digest.usable,
            utilisation: digest.utilisation,
            kv_tokens: digest.kv_tokens,
            learned_ms_per_token: digest.learned_ms_per_token,
            pace: digest.pace,
            whole: digest.whole,
            changes,
            places,
        }
    }
}
