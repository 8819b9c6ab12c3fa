//! The places in a peer's news, reduced to what its word counts for.
//!
//! News has the places only when they change, but what counts of them also depends on this
//! gateway's file and the registry, so the last report is kept and looked at again when those
//! change.

use std::sync::Arc;

use meridian_base::residency::Place;
use meridian_protocol::peer::{Identity, News};

use crate::inputs::residency::{Known, Residency};
use crate::rarely::Rarely;

/// The places of one peer, as reported on one stream.
pub(super) struct Reported<'a> {
    pub(super) residency: &'a Residency,
    peer: &'a Identity,
    last: Vec<Arc<Place>>,
    /// The knowledge by which `last` was judged.
    known: Option<Arc<Known>>,
    log: Rarely,
}

impl<'a> Reported<'a> {
    pub(super) fn new(residency: &'a Residency, peer: &'a Identity) -> Reported<'a> {
        Reported { residency, peer, last: Vec::new(), known: None, log: Rarely::default() }
    }

    /// Replaces the places in news by what counts of them.
    pub(super) fn check(&mut self, news: &mut News) {
        let changed = news.places.take().map(|places| self.last = places).is_some();
        let known = self.residency.known();
        let is_same = self.known.as_ref().is_some_and(|last| Arc::ptr_eq(last, &known));
        if !changed && (is_same || self.last.is_empty()) {
            return;
        }
        let one = |place: &Arc<Place>| match known.believed(self.peer, place) {
            Some(believed) if believed == **place => Some(place.clone()),
            other => {
                self.odd(place);
                other.map(Arc::new)
            }
        };
        news.places = Some(self.last.iter().filter_map(one).collect());
        self.known = Some(known);
    }

    /// Logs a place that does not count as reported.
    fn odd(&self, place: &Place) {
        if let Some(unlogged) = self.log.due(&place.region) {
            tracing::warn!(
                peer = %self.peer, region = place.region, labels = ?place.labels, unlogged,
                "a peer reports replicas at a place that neither the registry nor its `places` in \
                 peers.gateways has; rules permit nothing there"
            );
        }
    }
}
