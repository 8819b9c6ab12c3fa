//! The prefill legs whose blocks this engine holds, by the name that their params give them.

use super::{Denial, Export};
use meridian_base::RequestId;
use std::collections::HashMap;
use std::ops::Range;
use tokio::time::Instant;

/// Blocks that another engine reads.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// Their contents.
    pub(crate) contents: Vec<u64>,
    /// When their request's first token is due.
    pub(crate) due: Option<Instant>,
}

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
    due: Option<Instant>,
}

impl Exports {
    /// The blocks of a prompt are held from now on. A reply's blocks after them are not exported.
    pub(crate) fn insert(&mut self, id: RequestId, export: &Export, blocks: Range<u32>) {
        let contents = blocks.zip(export.contents.iter().copied()).collect();
        self.by_name.insert(export.name.clone(), Exported { id, contents, due: export.due });
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

    /// Some blocks of a request.
    pub(crate) fn read(&self, name: &str, blocks: &[u32]) -> Result<Read, Denial> {
        let exported = self.by_name.get(name).ok_or(Denial::NotHeld)?;
        let content = |block: &u32| exported.contents.get(block).copied();
        let contents = blocks.iter().map(content).collect::<Option<_>>();
        Ok(Read { contents: contents.ok_or(Denial::UnknownBlock)?, due: exported.due })
    }
}
