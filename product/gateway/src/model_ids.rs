//! The numbers of models, for the machine and for counters.

use std::collections::HashMap;

use meridian_base::ModelId;

use crate::lock::RwLock;

/// The number of each model that a replica serves or served, here or at a peer. Names come from
/// engines, never from requests, so there are few.
#[derive(Debug, Default)]
pub(crate) struct ModelIds(RwLock<HashMap<String, ModelId>>);

impl ModelIds {
    /// The number of a known model.
    pub(crate) fn get(&self, name: &str) -> Option<ModelId> {
        self.0.read().get(name).copied()
    }

    /// The name of a model. Rarely needed, so it is found by a search.
    pub(crate) fn name(&self, id: ModelId) -> Option<String> {
        let models = self.0.read();
        models.iter().find(|(_, model)| **model == id).map(|(name, _)| name.clone())
    }

    /// The number of a model, which is the next one for a new model; none once all are in use.
    pub(crate) fn intern(&self, name: &str) -> Option<ModelId> {
        let mut models = self.0.write();
        if let Some(id) = models.get(name) {
            return Some(*id);
        }
        let Ok(id) = u16::try_from(models.len()).map(ModelId) else {
            tracing::error!(
                "65,536 names of models are known; restart the gateway to serve new ones"
            );
            return None;
        };
        models.insert(name.to_owned(), id);
        assert_eq!(models.len(), usize::from(id.0) + 1, "two models have one number");
        Some(id)
    }
}
