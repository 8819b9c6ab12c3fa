//! The results of a run.

/// A request that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Record {
    /// Seconds from its arrival until its KV was at the decode instance; `None` if the run ended
    /// before.
    pub ttft: Option<f64>,
    /// Mean seconds of each further token; `None` if the run ended before.
    pub tpot: Option<f64>,
}

/// The time spent by the instances of one phase.
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
    /// Mean tokens of KV on all instances, until the last arrival.
    pub kv_tokens: f64,
}
