//! Messages between a node and the coordinator, one a line over TCP.

use serde::{Deserialize, Serialize};

use super::{Batch, Port};

/// The version of these messages.
pub const VERSION: u32 = 1;

/// A message of a node. The first is [`ToCoordinator::Hello`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ToCoordinator {
    /// Who the node is.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// Its name.
        node: String,
        /// Its ports. A port that several nodes name has the rate of the last.
        ports: Vec<Port>,
    },
    /// The node's part of a batch.
    Batch(Batch),
    /// A batch has computed all of its layers.
    Departed {
        /// The batch.
        batch: u64,
    },
    /// A request has ended.
    Ended {
        /// The request.
        request: u64,
    },
}

/// A message of the coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ToNode {
    /// The node's connection is accepted.
    Welcome {
        /// [`VERSION`].
        version: u32,
    },
    /// The coordinator does not serve this node, and closes the connection.
    Refused {
        /// Why, with a remedy.
        why: String,
    },
    /// The order of a batch and its pruned requests.
    Verdict(Verdict),
}

/// The coordinator's word on a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// The batch.
    pub batch: u64,
    /// Microseconds until its robust effective deadline; negative once it has passed. Absent
    /// without a deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub red_us: Option<i64>,
    /// Its requests that the coordinator knows. A node that knows more ignores the verdict.
    pub requests: u32,
    /// Its requests that should go last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pruned: Vec<Pruned>,
}

/// A request that would make others late.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pruned {
    /// The request.
    pub request: u64,
    /// The bottleneck.
    pub port: String,
    /// By how much its batch would have ended late, microseconds.
    pub late_us: u64,
    /// Bytes that pruning removes there.
    pub bytes: u64,
}
