//! Sizes of the tables.

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
