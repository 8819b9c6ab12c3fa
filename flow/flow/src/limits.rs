//! Sizes of the tables.

/// Most rows of a table.
pub(crate) const MOST_ROWS: u32 = 1 << 24;

/// Most bytes of a flow: those of all flows together are below the end of the type.
pub(crate) const MOST_BYTES: u64 = 1 << 39;
const _: () = assert!(
    MOST_BYTES.checked_mul(MOST_ROWS as u64).is_some(),
    "the bytes of all flows together fit their type"
);

/// Bounds of the tables. All memory is reserved when the machine is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Flows; ids are below this.
    pub flows: u32,
    /// Requests.
    pub requests: u32,
    /// Batches; ids are below this.
    pub batches: u32,
    /// Ports; ids are below this.
    pub ports: u32,
    /// Pairs of a request and a port it uses.
    pub uses: u32,
    /// Layers of a model.
    pub layers: u16,
}
