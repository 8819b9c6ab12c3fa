//! The prefill legs whose blocks this engine holds, by the name that their params give them.

use super::{Denial, Export};
use meridian_base::RequestId;
use std::collections::HashMap;

/// The contents of all held blocks.
#[derive(Debug, Default)]
pub(crate) struct Exports {
    by_name: HashMap<String, Exported>,
    names: HashMap<u64, String>,
}

#[derive(Debug)]
struct Exported {
    id: RequestId,
    /// The blocks of the prompt, each with its content.
    contents: HashMap<u32, u64>,
}

impl Exports {
    /// The blocks of a prompt are held from now on. A reply's blocks after them are not exported.
    pub(crate) fn insert(&mut self, id: RequestId, export: &Export, blocks: &[u32]) {
        let contents = blocks.iter().copied().zip(export.contents.iter().copied()).collect();
        self.by_name.insert(export.name.clone(), Exported { id, contents });
        self.names.insert(id.0, export.name.clone());
    }

    /// The blocks are not held any more.
    pub(crate) fn remove(&mut self, id: RequestId) {
        if let Some(name) = self.names.remove(&id.0) {
            self.by_name.remove(&name);
        }
    }

    pub(crate) fn id(&self, name: &str) -> Option<RequestId> {
        self.by_name.get(name).map(|exported| exported.id)
    }

    /// The contents of some blocks of a request.
    pub(crate) fn contents(&self, name: &str, blocks: &[u32]) -> Result<Vec<u64>, Denial> {
        let exported = self.by_name.get(name).ok_or(Denial::NotHeld)?;
        let content = |block: &u32| exported.contents.get(block).copied();
        blocks.iter().map(content).collect::<Option<_>>().ok_or(Denial::UnknownBlock)
    }
}
