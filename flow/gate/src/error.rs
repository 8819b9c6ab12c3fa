//! Why a gate refuses.

use meridian_flow::{ConfigError, Refusal};
use meridian_messages::BatchError;

/// Why a gate can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The policy does not exist.
    #[error("policy `{0}` is unknown: use one of {1}")]
    Policy(String, String),
    /// There are no ports.
    #[error("ports is empty: name at least one direction of a card, with its gbps")]
    NoPorts,
    /// Two ports have one name.
    #[error("ports names `{0}` twice: name it once")]
    PortTwice(String),
    /// A port's rate is not a rate.
    #[error("gbps of port `{port}` is {gbps}: use 0.001 to 100000")]
    Rate {
        /// The port.
        port: String,
        /// The rate.
        gbps: f64,
    },
    /// Another setting is out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The coordinator has no usable address.
    #[error("coordinator `{0}` is not host:port: {1}")]
    Coordinator(String, String),
}

/// Why a gate refuses an input. The client sends without a permit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GateError {
    /// The machine refuses it.
    #[error("{0}")]
    Refused(Refusal),
    /// The batch has a value that is not valid.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// More ports than a transfer can cross.
    #[error("ports has {0} entries: a transfer crosses {1} at most")]
    Ports(usize, usize),
    /// The batch is not there.
    #[error("batch {0} is unknown: it was never announced, or it has departed")]
    UnknownBatch(u64),
    /// The request is not there.
    #[error("request {0} is unknown: it was never announced, or it has ended")]
    UnknownRequest(u64),
    /// The batch is there already.
    #[error("batch {0} is under way: give each batch its own number")]
    BatchTwice(u64),
    /// The transfer is not there.
    #[error("the transfer is unknown: it has ended, or its request has")]
    UnknownTransfer,
    /// Its client asks for more than the transfer has.
    #[error(
        "all bytes of the transfer have their permits: report those that were sent, or submit another"
    )]
    AllPermitted,
    /// All rows are in use.
    #[error("{0} transfers are under way, the most there can be: end what is over")]
    Full(u32),
    /// The gate has failed. Every transfer goes on without it.
    #[error("the gate has failed: transfers go on without it")]
    Failed,
}
