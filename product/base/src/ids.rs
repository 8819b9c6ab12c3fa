//! Ids: plain numbers that a driver assigns, meaningless outside its process.

use core::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($repr:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $repr);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id! {
    /// One accepted request, unique for the life of a process.
    RequestId(u64), "req-"
}
id! {
    /// One replica's row in the tables of a region. Reused only after the replica is removed.
    ReplicaId(u16), "r"
}
id! {
    /// One peer's row in the tables of a region: another region's gateway.
    PeerId(u16), "peer"
}
id! {
    /// One sibling: another gateway of the same region, with the same replicas.
    SiblingId(u16), "sibling"
}
id! {
    /// A model name, interned by the driver. Adapters (LoRA) are models of their own.
    ModelId(u16), "m"
}

id! {
    /// One network transfer's row in the tables of a flow machine. Reused only after it is over.
    FlowId(u32), "flow-"
}
id! {
    /// One port's row: one direction of a network card, or of a switch's port.
    PortId(u32), "port-"
}
id! {
    /// One batch's row: requests that compute their layers together.
    BatchId(u32), "batch-"
}

impl FlowId {
    /// The row as an index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl PortId {
    /// The row as an index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl BatchId {
    /// The row as an index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl PeerId {
    /// The row as an index.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl ReplicaId {
    /// The row as an index.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}
