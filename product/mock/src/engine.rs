//! An engine: its role, its reaction to missing KV, and its counts.

/// The engine's part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Computes prompts and holds their blocks.
    Prefill,
    /// Fetches blocks and writes answers.
    Decode,
}

impl Role {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::Prefill => "prefill",
            Role::Decode => "decode",
        }
    }
}

/// A decode engine's reaction to KV that does not arrive: vLLM's `kv_load_failure_policy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadFailure {
    /// The request fails with a 500.
    #[default]
    Fail,
    /// The decode engine computes the prompt.
    Recompute,
}

/// Counts of one engine since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Prefill legs answered.
    pub prefills: u64,
    /// Decode legs answered with the KV of a prefill engine.
    pub decodes: u64,
    /// Decode legs without parameters, whose prompt the engine computed.
    pub alone: u64,
    /// Requests that failed or were refused as recorded.
    pub failures: u64,
    /// Requests that no recording covers.
    pub uncovered: u64,
    /// Blocks that the engine holds for decode legs now.
    pub held_blocks: u64,
    /// Requests whose blocks no decode engine fetched within the lease.
    pub expired: u64,
    /// Decode legs whose blocks the engine did not hold any more: used twice, or too late. A real
    /// decode engine then reads other KV and answers 200.
    pub late: u64,
    /// Transfers and handshakes that failed at a decode engine.
    pub failed_transfers: u64,
    /// Blocks that a decode engine fetched.
    pub fetched_blocks: u64,
    /// Decode legs that wait for KV now.
    pub deferred: u64,
}

/// One engine.
pub(crate) struct EngineState {
    pub(crate) role: Role,
    /// Its id in parameters.
    pub(crate) id: String,
    pub(crate) counts: Counts,
    /// The cause of its end.
    pub(crate) death: Option<&'static str>,
}
