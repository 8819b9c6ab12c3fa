//! The ports of a cluster: names that nodes say, rows of the machine.

use std::collections::HashMap;

use meridian_base::PortId;

/// All ports that a node has named. They are never forgotten: a card that was there comes back.
#[derive(Debug, Default)]
pub(crate) struct Names {
    ids: HashMap<String, PortId>,
    names: Vec<String>,
}

/// The longest name.
const LONGEST: usize = 256;

impl Names {
    /// The row of a port, which gets one now if there is room for it.
    pub(crate) fn add(&mut self, name: &str, most: u32) -> Option<PortId> {
        if let Some(id) = self.ids.get(name) {
            return Some(*id);
        }
        let row = u32::try_from(self.names.len()).ok().filter(|row| *row < most)?;
        if name.len() > LONGEST {
            return None;
        }
        self.names.push(name.to_owned());
        self.ids.insert(name.to_owned(), PortId(row));
        assert!(self.ids.len() == self.names.len(), "each port has one name");
        Some(PortId(row))
    }

    pub(crate) fn id(&self, name: &str) -> Option<PortId> {
        self.ids.get(name).copied()
    }

    pub(crate) fn name(&self, id: PortId) -> &str {
        self.names.get(id.index()).map_or("", |name| name)
    }
}
