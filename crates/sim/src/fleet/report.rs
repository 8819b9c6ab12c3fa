//! What a run was like.

/// A request that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Record {
    /// Seconds from its arrival until its KV was at the decode instance; `None` where the run ended
    /// before.
    pub ttft: Option<f64>,
    /// Seconds of each further token, in the mean; `None` where the run ended before.
    pub tpot: Option<f64>,
}

/// What instances of one phase spent their time with.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// Steps.
    pub steps: u64,
    /// Seconds of computing, over all stages.
    pub computing: f64,
    /// Seconds of collectives.
    pub collectives: f64,
}

/// A run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Each request, in the order of arrival.
    pub records: Vec<Record>,
    /// Prefill instances.
    pub prefill: Spent,
    /// Decode instances.
    pub decode: Spent,
    /// Tokens of KV that all instances held, in the mean over the time until the last arrival.
    pub kv_tokens: f64,
}
