//! The reasons for which a replica drains.
//!
//! An operator, the registry, the region and a source each drain replicas, also at the same time. A
//! replica takes requests again when the last reason ends, so no part undoes the drain of another.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::lock::Mutex;

/// A reason to drain a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum DrainReason {
    /// An operator removes it at the admin port.
    Removed,
    /// Its record in the registry drains, or the region of its record.
    Record,
    /// The region of this gateway drains, and the registry has no record of the replica.
    Region,
    /// Another gateway serves it.
    Elsewhere,
    /// The source that brought it lists it no longer.
    Unlisted,
    /// The source that brought it says that it is not ready.
    NotReady,
}

/// The reasons to drain one replica.
#[derive(Debug, Default)]
pub(crate) struct Drains {
    reasons: Mutex<u8>,
    /// The same, for readers that hold a lock which `begin` and `end` may need.
    seen: AtomicU8,
}

impl DrainReason {
    fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Its word as the cause of an interval.
    pub(crate) fn word(self) -> &'static str {
        match self {
            DrainReason::Removed => "removed",
            DrainReason::Record => "record_drains",
            DrainReason::Region => "region_drains",
            DrainReason::Elsewhere => "served_elsewhere",
            DrainReason::Unlisted => "unlisted",
            DrainReason::NotReady => "not_ready",
        }
    }
}

impl Drains {
    /// Adds a reason. Returns false if it was there before. The first reason runs `begin` under the
    /// lock, so `begin` and `end` alternate.
    pub(crate) fn add(&self, reason: DrainReason, begin: impl FnOnce()) -> bool {
        let mut reasons = self.reasons.lock();
        let before = *reasons;
        *reasons |= reason.bit();
        self.seen.store(*reasons, Ordering::Release);
        if before == 0 {
            begin();
        }
        before & reason.bit() == 0
    }

    /// Withdraws a reason, if it is there. The last reason runs `end` under the lock.
    pub(crate) fn withdraw(&self, reason: DrainReason, end: impl FnOnce()) {
        let mut reasons = self.reasons.lock();
        let before = *reasons;
        *reasons &= !reason.bit();
        self.seen.store(*reasons, Ordering::Release);
        if before == reason.bit() {
            end();
        }
    }

    /// Whether it leaves when its requests have ended, unless its reasons are withdrawn first.
    pub(crate) fn is_leaving(&self) -> bool {
        let leaves = [DrainReason::Removed, DrainReason::Elsewhere, DrainReason::Unlisted];
        let seen = self.seen.load(Ordering::Acquire);
        leaves.iter().any(|reason| seen & reason.bit() != 0)
    }

    pub(crate) fn has(&self, reason: DrainReason) -> bool {
        self.while_has(reason, || ()).is_some()
    }

    /// Runs `act` if the reason is there. The reason stays until `act` returns.
    pub(crate) fn while_has<T>(&self, reason: DrainReason, act: impl FnOnce() -> T) -> Option<T> {
        let reasons = self.reasons.lock();
        (*reasons & reason.bit() != 0).then(act)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    // The first reason begins a drain and the last one ends it. A reason counts once.
    #[test]
    fn reasons_add_up() {
        use DrainReason::{Region, Removed};
        let (drains, started, ended) = (Drains::default(), Cell::new(0), Cell::new(0));
        let begin = || started.set(started.get() + 1);
        let end = || ended.set(ended.get() + 1);
        drains.withdraw(Region, end);
        assert!(drains.add(Region, begin) && !drains.add(Region, begin));
        assert!(drains.add(Removed, begin));
        drains.withdraw(Region, end);
        assert_eq!((started.get(), ended.get(), drains.has(Removed)), (1, 0, true));
        drains.withdraw(Removed, end);
        drains.withdraw(Removed, end);
        assert_eq!((started.get(), ended.get(), drains.has(Removed)), (1, 1, false));
    }
}
