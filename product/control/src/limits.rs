//! The limits of a store.

use meridian_base::Duration;

use crate::Error;
use crate::store::{Change, Txn};

/// Upper limits. The defaults are far above the needs of a fleet of a thousand replicas, and below
/// etcd's own defaults. etcd itself limits the number of keys and leases, by its quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes per key.
    pub key: usize,
    /// Bytes per value.
    pub value: usize,
    /// Number of keys.
    pub keys: usize,
    /// Changes, and guards, per transaction.
    pub txn: usize,
    /// Number of leases.
    pub leases: usize,
    /// The longest time to live.
    pub ttl: Duration,
    /// Revisions of history to keep.
    pub history: u64,
}

/// The usual limit of changes per transaction.
pub(crate) const TXN: usize = 128;
/// The usual limit of a time to live.
pub(crate) const TTL: Duration = Duration::from_secs(3600);

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            key: 512,
            value: 64 << 10,
            keys: 100_000,
            txn: TXN,
            leases: 10_000,
            ttl: TTL,
            history: 10_000,
        }
    }
}

impl Limits {
    /// Those of a store that has gateways' reports, with a hundred bytes for each replica. etcd's own
    /// limit is 1.5 MiB for a transaction.
    #[must_use]
    pub fn of_etcd() -> Limits {
        Limits { value: 1 << 20, ..Limits::default() }
    }

    /// Checks a transaction against the limits, as far as possible without reading the store.
    pub(crate) fn admit(&self, txn: &Txn) -> Result<(), Error> {
        let parts = txn.changes.len().max(txn.guards.len());
        within("the number of changes or guards", parts, self.txn, "split the transaction")?;
        let guards = txn.guards.iter().map(|guard| guard.key());
        for key in guards.chain(txn.changes.iter().map(Change::key)) {
            within("a key's length in bytes", key.len(), self.key, "use a shorter key")?;
        }
        let mut keys: Vec<&str> = txn.changes.iter().map(Change::key).collect();
        keys.sort_unstable();
        if let Some(pair) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::Twice(pair[0].to_owned()));
        }
        for change in &txn.changes {
            if let Change::Put { value, .. } = change {
                within("a value's length in bytes", value.len(), self.value, "store less in it")?;
            }
        }
        Ok(())
    }

    /// The duration that is granted: whole seconds, at least one.
    pub(crate) fn grant(&self, ttl: Duration) -> Result<Duration, Error> {
        let up = u64::from(ttl.subsec_nanos() > 0);
        let seconds = ttl.as_secs().saturating_add(up).max(1);
        let limit = self.ttl.as_secs();
        let asked = usize::try_from(seconds).unwrap_or(usize::MAX);
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        within("a time to live in seconds", asked, most, "keep a shorter lease alive")?;
        let granted = Duration::from_secs(seconds);
        assert!(granted >= ttl && seconds > 0, "a lease lasts at least as long as requested");
        Ok(granted)
    }
}

pub(crate) fn within(
    what: &'static str,
    is: usize,
    limit: usize,
    remedy: &'static str,
) -> Result<(), Error> {
    if is <= limit { Ok(()) } else { Err(Error::OverLimit { what, is, limit, remedy }) }
}
