//! Models whose last replica has left, and when: requests for them may wait for another one.
//!
//! A model that a replica stopped to list, such as an adapter, has not departed: an operator unloaded
//! it. Names come from engines only, so there are few.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use meridian_base::{ModelId, Time};

use crate::lock::RwLock;

#[derive(Debug, Default)]
pub(crate) struct Departed {
    at: RwLock<HashMap<ModelId, Time>>,
    /// Their number, read for each request.
    count: AtomicUsize,
}

impl Departed {
    /// The last replica of these models left.
    pub(crate) fn left(&self, models: impl Iterator<Item = ModelId>, now: Time) {
        let mut at = self.at.write();
        at.extend(models.map(|model| (model, now)));
        self.count.store(at.len(), Ordering::Release);
    }

    /// A replica serves these models.
    pub(crate) fn came(&self, models: impl Iterator<Item = ModelId>) {
        if self.count.load(Ordering::Acquire) > 0 {
            let mut at = self.at.write();
            for model in models {
                at.remove(&model);
            }
            self.count.store(at.len(), Ordering::Release);
        }
    }

    /// When the last replica of a model left, if none serves it since.
    pub(crate) fn at(&self, model: ModelId) -> Option<Time> {
        (self.count.load(Ordering::Acquire) > 0).then(|| self.at.read().get(&model).copied())?
    }
}
