//! News: the probes and digests that a gateway has looked up, and those it has to offer.

mod beats;
mod offer;

use meridian_base::{Duration, Time};
use meridian_routing::Load;

use crate::replica::Replica;
use crate::stopped::PROBE_TIMEOUT;
pub(crate) use beats::{Beats, back};
pub(crate) use offer::Offer;

/// The news that a gateway has been shown.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// By the gateway's own id of each replica.
    replicas: Vec<OfReplica>,
    /// When the first of their next reports arrives, or earlier; zero after any change of replicas.
    soonest: Time,
    /// By the gateway's own id of each peer.
    peers: Vec<OfPeer>,
    /// When it wakes for the next message.
    wake: Option<Time>,
}

/// The news shown of a replica.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OfReplica {
    /// When the newest report was requested.
    asked: Time,
    /// When the next one arrives; zero if not computed yet.
    next: Time,
    /// The newest report and the time of the state that it describes; none if it failed.
    said: Option<(Time, Load)>,
}

/// When a replica's report to probes last changed. Most reports repeat the one before, and a list
/// of these is small enough for the processor's cache, unlike the replicas.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    at: Time,
    region: u32,
}

/// The news shown of a peer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OfPeer {
    /// The number of the newest digest.
    number: u64,
    /// When the next digest arrives; zero if not computed yet.
    next: Time,
    /// Looking up before this is useless as long as the peer's version is unchanged.
    quiet: Time,
    version: u64,
}

impl Shown {
    /// The set of known replicas changed.
    pub(crate) fn replicas_changed(&mut self) {
        self.soonest = Time::ZERO;
        self.replicas.iter_mut().for_each(|r| (r.next, r.said) = (Time::ZERO, None));
    }

    /// Whether no report of a replica arrives by `now`.
    pub(crate) fn is_quiet(&self, now: Time) -> bool {
        now < self.soonest
    }

    /// Makes room for the reports of so many replicas.
    pub(crate) fn resize(&mut self, replicas: usize) {
        self.replicas.resize(replicas, OfReplica::default());
    }

    /// Sets when the first of the next reports arrives.
    pub(crate) fn quiet_until(&mut self, soonest: Time) {
        self.soonest = soonest;
    }

    /// The news of a replica that has room here.
    pub(crate) fn replica(&mut self, own: usize) -> &mut OfReplica {
        &mut self.replicas[own]
    }

    /// The news of a replica, if there is any.
    pub(crate) fn of_replica(&self, own: usize) -> OfReplica {
        self.replicas.get(own).copied().unwrap_or_default()
    }

    /// The news of a peer, for which there is room afterwards.
    pub(crate) fn peer(&mut self, own: usize) -> &mut OfPeer {
        self.peers.resize(self.peers.len().max(own + 1), OfPeer::default());
        &mut self.peers[own]
    }

    /// The news of a peer, if there is any.
    pub(crate) fn of_peer(&self, own: usize) -> OfPeer {
        self.peers.get(own).copied().unwrap_or_default()
    }

    /// Whether no digest of a peer arrives by `now`, if the peer has this version.
    pub(crate) fn is_quiet_about(&self, own: usize, version: u64, now: Time) -> bool {
        self.peers.get(own).is_some_and(|seen| seen.version == version && now < seen.quiet)
    }

    /// Schedules that it wakes at `due`. False if it wakes before that anyway.
    pub(crate) fn wake_at(&mut self, due: Time, now: Time) -> bool {
        let later = self.wake.is_none_or(|wake| wake <= now || wake > due);
        if later {
            self.wake = Some(due);
        }
        later
    }

    /// Whether it wakes now; only once.
    pub(crate) fn wakes(&mut self, now: Time) -> bool {
        let wakes = self.wake == Some(now);
        if wakes {
            self.wake = None;
        }
        wakes
    }
}

impl OfReplica {
    /// When the next report arrives; zero if not computed yet.
    pub(crate) fn next(&self) -> Time {
        self.next
    }

    /// The newest report, if the replica still reports the same.
    pub(crate) fn unchanged(&self, change: Change) -> Option<Load> {
        self.said.filter(|(of, _)| change.at < *of).map(|(_, load)| load)
    }

    /// When the newest probe was sent whose answer is there by `now`; `None` if it was shown before.
    pub(crate) fn ask(&mut self, now: Time, rtt: Duration, beats: Beats) -> Option<Time> {
        let asked = beats.until(back(now, rtt));
        self.next = beats.after(asked) + rtt;
        let asked = asked.filter(|asked| *asked > self.asked)?;
        assert!(asked <= now, "a probe of {asked:?} has an answer at {now:?}");
        self.asked = asked;
        Some(asked)
    }

    /// Sets the newest report, with the time of its state; `None` if it failed.
    pub(crate) fn hear(&mut self, of: Time, load: Option<Load>) {
        self.said = load.map(|load| (of, load));
    }

    /// Whether a probe of a replica that is suspended `since` then has failed by `now`. The next
    /// one is then sent.
    pub(crate) fn times_out(&mut self, now: Time, since: Time) -> bool {
        let fails = self.asked.max(since) + PROBE_TIMEOUT;
        if now < fails {
            self.next = fails;
            return false;
        }
        (self.asked, self.next) = (now, now + PROBE_TIMEOUT);
        true
    }

    /// Whether the next report may show free capacity of a replica that last `opened` then.
    pub(crate) fn may_open(&self, opened: Time, rtt: Duration) -> bool {
        opened >= self.asked + rtt / 2
    }
}

impl Change {
    pub(crate) fn new(replica: &Replica) -> Change {
        Change { at: replica.changed(), region: replica.hardware.region as u32 }
    }

    /// The replica's region.
    pub(crate) fn region(&self) -> usize {
        self.region as usize
    }
}

impl OfPeer {
    /// When the next digest arrives; zero if not computed yet.
    pub(crate) fn next(&self) -> Time {
        self.next
    }

    /// The number of the newest digest.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// It was looked up: when its next digest arrives, and until when there is no other one if the
    /// peer keeps this version.
    pub(crate) fn looked(&mut self, next: Time, quiet: Time, version: u64) {
        assert!(version >= self.version, "version {version} of a peer, after {}", self.version);
        (self.next, self.quiet, self.version) = (next, quiet, version);
    }

    /// Shows a digest. False if it is not new.
    pub(crate) fn hear(&mut self, number: u64) -> bool {
        let new = number > self.number;
        if new {
            self.number = number;
        }
        new
    }
}

#[cfg(test)]
mod tests;
