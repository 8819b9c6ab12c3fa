//! An engine's counters of the KV that it fetched from other engines or handed to them.

use serde::{Deserialize, Serialize};

/// What an engine reports about the transfers of KV, since its start. Expired and late ones are
/// signs of wrong answers: a decode engine may have read blocks that were released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfers {
    /// Bytes that it fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Transfers that failed, handshakes included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<u64>,
    /// Prompts whose KV was released before a decode replica had fetched it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired: Option<u64>,
    /// Reports of a finished transfer that came after the KV had been released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<u64>,
}

impl Transfers {
    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Transfers::default()
    }

    /// Fills in absent values from another report.
    #[must_use]
    pub fn or(self, other: Transfers) -> Transfers {
        Transfers {
            bytes: self.bytes.or(other.bytes),
            failed: self.failed.or(other.failed),
            expired: self.expired.or(other.expired),
            late: self.late.or(other.late),
        }
    }
}
