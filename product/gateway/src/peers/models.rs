//! Models served by each peer, as far as peers report them.
//!
//! A request is forwarded only to peers that serve its model. A peer that has not reported its
//! models yet, or never does because it is older, may serve any: it refuses requests for others,
//! and these are retried elsewhere.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use bytes::Bytes;
use meridian_base::{ModelId, PeerId};

use crate::replicas::fleet::Fleet;
use crate::replicas::model_list::model_list;

#[derive(Debug, Default)]
pub(crate) struct Models(RwLock<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// The peers that reported their models, one bit each.
    reported: u64,
    /// By model, the peers that reported it.
    serve: HashMap<ModelId, u64>,
    /// Each peer's report, and the same as a model list.
    pages: HashMap<PeerId, (Vec<String>, Bytes)>,
}

impl Models {
    /// The peers that may serve a model, one bit each.
    pub(crate) fn serving(&self, model: ModelId) -> u64 {
        let inner = self.0.read().unwrap_or_else(PoisonError::into_inner);
        !inner.reported | inner.serve.get(&model).copied().unwrap_or(0)
    }

    /// Whether any peer reported a model.
    pub(crate) fn knows(&self, model: ModelId) -> bool {
        let inner = self.0.read().unwrap_or_else(PoisonError::into_inner);
        inner.serve.contains_key(&model)
    }

    /// Sets all models of a peer, as reported.
    pub(crate) fn tell(&self, peer: PeerId, names: Vec<String>, fleet: &Fleet) {
        assert!(u32::from(peer.0) < u64::BITS, "{peer} has no bit in a set of peers");
        let bit = 1_u64 << peer.0;
        let ids: Vec<ModelId> = names.iter().filter_map(|name| fleet.models.intern(name)).collect();
        let page = model_list(&names);
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        inner.reported |= bit;
        inner.serve.values_mut().for_each(|peers| *peers &= !bit);
        for id in ids {
            *inner.serve.entry(id).or_default() |= bit;
        }
        inner.pages.insert(peer, (names, page));
    }

    /// The models that a peer reported.
    pub(crate) fn of(&self, peer: PeerId) -> Option<Vec<String>> {
        let inner = self.0.read().unwrap_or_else(PoisonError::into_inner);
        inner.pages.get(&peer).map(|(names, _)| names.clone())
    }

    /// The model lists of all peers.
    pub(crate) fn pages(&self) -> Vec<Bytes> {
        let inner = self.0.read().unwrap_or_else(PoisonError::into_inner);
        inner.pages.values().map(|(_, page)| page.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A peer without a report may serve any model. With one, it serves the models of its last
    // report only.
    #[test]
    fn masks() {
        let (models, fleet) = (Models::default(), Fleet::default());
        let m = fleet.models.intern("m").expect("there is capacity");
        assert_eq!(models.serving(m), u64::MAX);
        assert!(!models.knows(m));
        models.tell(PeerId(0), vec!["m".to_owned()], &fleet);
        models.tell(PeerId(2), vec!["n".to_owned()], &fleet);
        let n = fleet.models.get("n").expect("peers' models have ids too");
        assert_eq!(models.serving(m), !0b100);
        assert_eq!(models.serving(n), !0b001);
        models.tell(PeerId(0), vec![], &fleet);
        assert_eq!(models.serving(m), !0b101);
        assert_eq!(models.of(PeerId(2)), Some(vec!["n".to_owned()]));
        assert_eq!(models.of(PeerId(1)), None);
    }
}
