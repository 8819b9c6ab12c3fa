//! The bytes of an all-reduce over all GPUs of a replica.
//!
//! In two tiers, as NCCL does it: the GPUs of a server first sum their parts over NVLink, so that
//! each has the sum of one part; each part then passes around a ring of servers, over the cards at
//! the same position; finally the GPUs of a server share the parts. A ring of `n` members sends
//! `2 (n - 1) / n` of the data from each: once to sum it, once to share the sum.

use super::setup::Pool;

/// The two tiers of one replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AllReduce {
    /// Its servers.
    servers: f64,
    /// Its GPUs in each.
    gpus: f64,
}

impl AllReduce {
    pub(crate) fn new(pool: &Pool, gpus_of_server: u32) -> AllReduce {
        let gpus = pool.gpus().min(gpus_of_server);
        AllReduce { servers: f64::from(pool.gpus() / gpus), gpus: f64::from(gpus) }
    }

    /// Bytes that each GPU's card sends, and receives, for `bytes` summed on every GPU.
    pub(crate) fn between_servers(self, bytes: f64) -> f64 {
        passed(self.servers) * bytes / self.gpus
    }

    /// Bytes that each GPU sends over NVLink.
    pub(crate) fn inside_server(self, bytes: f64) -> f64 {
        passed(self.gpus) * bytes
    }
}

/// The share of the data that each of `members` sends.
fn passed(members: f64) -> f64 {
    2.0 * (members - 1.0) / members
}
