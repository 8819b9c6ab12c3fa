//! What one peer is sent of the region: the difference to what it was sent before.
//!
//! A stream loses nothing and keeps the order, so the peer knows what was sent on it; a new stream
//! starts with everything.

use std::sync::Arc;

use meridian_routing::Digest;

use super::news::News;
use super::page::Page;

/// What one peer was sent on one stream.
#[derive(Debug, Default)]
pub struct Telling {
    version: u64,
    /// The newest digest that it was sent.
    digest: Option<Arc<Digest>>,
}

impl Telling {
    /// What is to be sent so that the peer knows what a page says.
    pub fn news(&mut self, page: &Page) -> News {
        let digest = page.digest();
        let base = self.version;
        self.version += 1;
        let changes = page.since(self.digest.as_ref());
        let told = self.digest.as_ref().map(|told| &told.places);
        let places = (told != Some(&digest.places)).then(|| digest.places.clone());
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
            whole: digest.whole,
            changes,
            places,
        }
    }
}
