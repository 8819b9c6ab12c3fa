//! The model of requests that name none.

use super::Fleet;

impl Fleet {
    /// The model that all replicas serve, for requests that name none: an adapter is another model of
    /// the same engine, and does not count. None if there are several.
    pub(crate) fn only_model(&self) -> Option<String> {
        let inner = self.inner.read();
        let mut only: Option<String> = None;
        for member in inner.members() {
            let found = member.found.read();
            for model in found.models.iter().filter(|model| !found.adapters.contains(model)) {
                if only.get_or_insert_with(|| model.clone()) != model {
                    return None;
                }
            }
        }
        only
    }
}
