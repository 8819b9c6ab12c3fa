//! The digests that a gateway offers to its peers, when they look them up instead of receiving them.

use std::collections::VecDeque;
use std::sync::Arc;

use meridian_base::Time;
use meridian_routing::Digest;

use super::beats::Beats;

/// Digests kept: those that may still be on their way to the farthest peer.
const KEPT: usize = 32;

/// A gateway's own digests.
#[derive(Debug, Default)]
pub(crate) struct Offer {
    /// Valid from, number, content.
    digests: VecDeque<(Time, u64, Arc<Digest>)>,
    /// When the newest digest was made, and when the machine last received an input.
    made: Time,
    last_input: Time,
    /// Counts changes that may affect the newest digest.
    version: u64,
    /// The contents of future digests: requests held, and whether there may be free capacity.
    would_tell: (u32, bool),
}

impl Offer {
    /// The state of a gateway that restarts.
    pub(crate) fn restarted(&self) -> Offer {
        Offer { version: self.version + 1, ..Offer::default() }
    }

    /// Counts changes that may affect the newest digest.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The first beat with the state since the newest input, and whether its digest is made.
    fn first(&self, beats: Beats) -> (Time, bool) {
        let first = beats.from(self.last_input);
        (first, self.digests.back().is_some_and(|newest| newest.0 >= first))
    }

    /// When the next digest is made if nothing happens; never, if it is made already.
    pub(crate) fn due(&self, beats: Beats) -> Time {
        let (first, made) = self.first(beats);
        if made { Time::MAX } else { first }
    }

    /// From when a digest that is made now is valid; `None` if there is none to make. For `beat`,
    /// there is one if the reports behind the last one are old.
    pub(crate) fn lacks(&self, beats: Beats, beat: Option<Time>) -> Option<Time> {
        match (self.first(beats), beat) {
            // Nothing has happened here since; only the replicas' reports advance.
            ((_, true), Some(beat)) => (beat.since(self.made) >= beats.every()).then_some(beat),
            ((_, true), None) => None,
            ((first, false), _) => Some(first),
        }
    }

    /// Adds a digest that is made at `now`.
    pub(crate) fn add(&mut self, now: Time, valid: Time, number: u64, digest: Arc<Digest>) {
        assert!(valid <= now, "a digest of {now:?} is valid from {valid:?}");
        if let Some((before, last, _)) = self.digests.back() {
            assert!(*before <= valid, "a digest from {before:?}, then one from {valid:?}");
            assert!(*last < number, "digest {number} follows {last}");
        }
        self.version += 1;
        self.made = now;
        self.digests.push_back((valid, number, digest));
        if self.digests.len() > KEPT {
            self.digests.pop_front();
        }
    }

    /// The machine gets an input.
    pub(crate) fn input(&mut self, now: Time) {
        assert!(now >= self.last_input, "an input at {now:?}, after {:?}", self.last_input);
        self.last_input = now;
        self.version += 1;
    }

    /// The newest digest that is valid at `at`, with its number.
    pub(crate) fn valid_at(&self, at: Time) -> Option<(u64, Arc<Digest>)> {
        let newest = self.digests.iter().rev().find(|(valid, _, _)| *valid <= at);
        newest.map(|(_, number, digest)| (*number, digest.clone()))
    }

    /// The digests after this number, the newest first.
    pub(crate) fn newer_than(&self, number: u64) -> impl Iterator<Item = &Digest> {
        let newer = self.digests.iter().rev().take_while(move |digest| digest.1 > number);
        newer.map(|(.., digest)| &**digest)
    }

    /// The contents of future digests: requests held, and whether there may be free capacity.
    pub(crate) fn would_tell(&self) -> (u32, bool) {
        self.would_tell
    }

    /// Sets the contents of future digests. Returns those before.
    pub(crate) fn will_tell(&mut self, held: u32, room: bool) -> (u32, bool) {
        std::mem::replace(&mut self.would_tell, (held, room))
    }
}

#[cfg(test)]
mod tests {
    use meridian_base::Duration;

    use super::*;

    fn digest(held: u32) -> Arc<Digest> {
        Arc::new(Digest { held, ..Digest::default() })
    }

    // A digest is made once for the state after an input, and again when its reports are old.
    #[test]
    fn one_digest_for_each_state() {
        let every = Duration::from_millis(100);
        let beats = Beats::of(1, every);
        let mut offer = Offer::default();
        let first = beats.from(Time::ZERO);
        assert_eq!((offer.due(beats), offer.lacks(beats, None)), (first, Some(first)));
        offer.add(first, first, 1, digest(0));
        assert_eq!((offer.due(beats), offer.lacks(beats, None)), (Time::MAX, None));
        assert_eq!(offer.lacks(beats, Some(first)), None);
        assert_eq!(offer.lacks(beats, Some(first + every)), Some(first + every));
        offer.input(first + every / 2);
        assert_eq!(offer.lacks(beats, None), Some(first + every));
        assert_eq!(offer.version(), 2);
        assert_eq!(offer.restarted().version(), 3);
    }

    // Peers find the digest that was valid when it was sent, and which are new to them.
    #[test]
    fn old_digests_are_kept() {
        let (mut offer, ms) = (Offer::default(), Time::from_millis);
        assert!(offer.valid_at(ms(9)).is_none());
        (1..=40).for_each(|n| offer.add(ms(n), ms(n), n, digest(n as u32)));
        assert_eq!(offer.valid_at(ms(20)).map(|(number, of)| (number, of.held)), Some((20, 20)));
        assert!(offer.valid_at(ms(8)).is_none(), "only {KEPT} are kept");
        let newer: Vec<u32> = offer.newer_than(37).map(|digest| digest.held).collect();
        assert_eq!(newer, [40, 39, 38]);
    }
}
