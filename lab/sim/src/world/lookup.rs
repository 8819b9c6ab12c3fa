//! Looks up probes and digests instead of sending them.
//!
//! With a probe of every replica every 100 ms, and as many digests, these are nearly all events of
//! a run, and hardly any of them matters: a gateway decides when a request arrives, or while it
//! holds some. The lazy mode therefore keeps a short history of each replica and of each gateway's
//! digests. Before a decision, the gateway gets exactly the contents of the newest message: the
//! state at the time that the probe would have arrived. While requests are held, a message may
//! release one, so the gateway wakes when the next is due. That is any message if some replica has
//! capacity that no held request took, otherwise one that may show free capacity.

use std::sync::Arc;

use meridian_base::{Duration, PeerId, ReplicaId, Time, mix};
use meridian_routing::Input;

use crate::event::Event;
use crate::gateway::Gateway;
use crate::news::{Change, OfPeer, OfReplica};
use crate::replica::Replica;
use crate::scenario::News;
use crate::stopped::PROBE_TIMEOUT;
use crate::world::World;

/// Digests kept per gateway: those that may still be on their way to the farthest peer.
const KEPT: usize = 32;

/// The first beat of a regular series with `phase` that is not before `at`.
fn beat_from(at: Time, phase: Duration, every: Duration) -> Time {
    let (at, phase, every) = (at.as_nanos(), phase.as_nanos() as u64, every.as_nanos() as u64);
    let beats = at.saturating_sub(phase).div_ceil(every);
    Time::from_nanos(phase + beats * every)
}

/// The last beat that is not after `at`, if there was one.
fn beat_until(at: Time, phase: Duration, every: Duration) -> Option<Time> {
    let (at, phase, every) = (at.as_nanos(), phase.as_nanos() as u64, every.as_nanos() as u64);
    let beats = at.checked_sub(phase)? / every;
    Some(Time::from_nanos(phase + beats * every))
}

/// Spreads the beats of several senders over one interval.
fn phase(who: u64, every: Duration) -> Duration {
    every * (mix(who, 0x5048_4153) >> 48) as u32 / (1 << 16)
}

impl World {
    pub(super) fn lazy(&self) -> bool {
        self.system.news == News::Lazy
    }

    /// Shows a gateway the contents of all messages due by now.
    pub(super) fn catch_up(&mut self, gateway: u16) {
        if !self.lazy() {
            return;
        }
        self.catch_up_on_replicas(gateway);
        for at in 0..self.gateways[usize::from(gateway)].peers.len() {
            self.catch_up_on_peer(gateway, at);
        }
    }

    fn catch_up_on_replicas(&mut self, gateway: u16) {
        let at = usize::from(gateway);
        if self.now < self.gateways[at].shown.soonest {
            return;
        }
        let count = self.gateways[at].knows.len();
        self.gateways[at].shown.replicas.resize(count, OfReplica::default());
        let mut soonest = Time::MAX;
        for own in 0..count {
            let Some(replica) = self.gateways[at].knows[own] else { continue };
            if self.now >= self.gateways[at].shown.replicas[own].next {
                self.show_report(at, own, replica);
            }
            soonest = soonest.min(self.gateways[at].shown.replicas[own].next);
        }
        self.gateways[at].shown.soonest = soonest;
    }

    /// Shows a gateway the newest report of a replica, if it is new.
    fn show_report(&mut self, at: usize, own: usize, replica: u32) {
        let every = self.system.probe.busy;
        let change = self.changes[replica as usize];
        let (from, to) = (self.gateways[at].region, change.region as usize);
        let said = self.gateways[at].shown.replicas[own].said;
        let same = said.filter(|(of, _)| change.at < *of).map(|(_, load)| load);
        if same.is_none()
            && let Some(stopped) = &self.replicas[replica as usize].stopped
        {
            let since = stopped.since();
            return self.show_timeout(at, own, since);
        }
        let (rtt, phase) = (self.network.rtt(from, to), phase(own as u64, every));
        let asked = beat_until(back(self.now, rtt), phase, every);
        let shown = &mut self.gateways[at].shown.replicas[own];
        shown.next = asked.map_or(Time::ZERO + phase, |asked| asked + every) + rtt;
        let Some(asked) = asked.filter(|asked| *asked > shown.asked) else { return };
        shown.asked = asked;
        let reachable = self.network.passes(from, to) && self.network.passes(to, from);
        let of = asked + rtt / 2;
        let there = || same.or_else(|| self.replicas[replica as usize].load_at(of));
        let load = reachable.then(there).flatten();
        self.gateways[at].shown.replicas[own].said = load.map(|load| (of, load));
        let id = ReplicaId(own as u16);
        match load {
            Some(load) => {
                let input = Input::Reported { id, asked, load };
                self.gateways[at].machine.handle(self.now, input);
            }
            None => self.probe_failed(at as u16, id),
        }
    }

    /// A probe of a suspended replica fails after its timeout, and the next one is sent.
    fn show_timeout(&mut self, at: usize, own: usize, since: Time) {
        let now = self.now;
        let shown = &mut self.gateways[at].shown.replicas[own];
        let fails = shown.asked.max(since) + PROBE_TIMEOUT;
        if now < fails {
            shown.next = fails;
            return;
        }
        (shown.asked, shown.next) = (now, now + PROBE_TIMEOUT);
        self.probe_failed(at as u16, ReplicaId(own as u16));
    }

    fn catch_up_on_peer(&mut self, gateway: u16, at: usize) {
        let to = usize::from(gateway);
        let from = self.gateways[to].peers[at];
        let version = self.gateways[usize::from(from)].shown.version;
        let seen = self.gateways[to].shown.peers.get(at);
        if seen.is_some_and(|seen| seen.version == version && self.now < seen.quiet) {
            return;
        }
        let (here, there) = (self.gateways[to].region, self.gateways[usize::from(from)].region);
        let silent = self.gateways[usize::from(from)].is_silent();
        if silent || !self.network.passes(there, here) {
            return;
        }
        let rtt = self.network.rtt(there, here);
        let (half, every) = (rtt / 2, self.digest_gap());
        let phase = phase(u64::from(from) + 1000, every);
        let beat = beat_until(back(self.now, half), phase, every);
        if let Some(beat) = beat {
            self.make_digest(from, Some(beat));
        }
        let next = beat.map_or(Time::ZERO + phase, |beat| beat + every) + half;
        let there = &self.gateways[usize::from(from)].shown;
        let (version, quiet) = (there.version, next.min(self.digest_due(from)));
        let digests = there.digests.iter().rev();
        let newest = beat.and_then(|beat| digests.clone().find(|(valid, _, _)| *valid <= beat));
        let newest = newest.map(|(_, number, digest)| (*number, digest.clone()));
        let shown = &mut self.gateways[to].shown;
        shown.peers.resize(shown.peers.len().max(at + 1), OfPeer::default());
        let seen = &mut shown.peers[at];
        (seen.next, seen.quiet, seen.version) = (next, quiet, version);
        let Some((number, digest)) = newest.filter(|(number, _)| *number > seen.number) else {
            return;
        };
        seen.number = number;
        let peer = PeerId(at as u16);
        let input = Input::Digested { peer, sent: number, rtt: Some(rtt), digest };
        self.gateways[to].machine.handle(self.now, input);
    }

    /// Makes the digest of a gateway's last beats before anything changes; for `beat`, again if the
    /// reports behind the last one are old.
    pub(super) fn make_digest(&mut self, gateway: u16, beat: Option<Time>) {
        let every = self.digest_gap();
        let at = usize::from(gateway);
        let shown = &self.gateways[at].shown;
        let first = beat_from(shown.last_input, phase(u64::from(gateway) + 1000, every), every);
        let newest = shown.digests.back().map(|d| d.0);
        let valid = match (newest, beat) {
            (Some(newest), Some(beat)) if newest >= first => {
                // Nothing has happened there since; only its replicas' reports advance.
                if beat.since(shown.made) < every {
                    return;
                }
                beat
            }
            (Some(newest), None) if newest >= first => return,
            _ => first,
        };
        if valid > self.now {
            return;
        }
        self.catch_up_on_replicas(gateway);
        let now = self.now;
        let there = &mut self.gateways[at];
        there.shown.version += 1;
        there.told_digests += 1;
        let digest = Arc::new(there.machine.digest());
        there.shown.digests.push_back((valid, there.told_digests, digest));
        there.shown.made = now;
        if there.shown.digests.len() > KEPT {
            there.shown.digests.pop_front();
        }
    }

    /// When a gateway's next digest is made if nothing happens; never, if it is made already.
    fn digest_due(&self, gateway: u16) -> Time {
        let every = self.digest_gap();
        let shown = &self.gateways[usize::from(gateway)].shown;
        let first = beat_from(shown.last_input, phase(u64::from(gateway) + 1000, every), every);
        let made = shown.digests.back().is_some_and(|newest| newest.0 >= first);
        if made { Time::MAX } else { first }
    }

    /// A machine is about to get an input: the digest of the state so far is made first.
    pub(super) fn before_telling(&mut self, gateway: u16) {
        if self.lazy() && self.forwards() {
            self.make_digest(gateway, None);
            let shown = &mut self.gateways[usize::from(gateway)].shown;
            shown.last_input = self.now;
            shown.version += 1;
        }
    }

    /// Records a replica's reports from now on, and wakes the gateways that wait for them.
    pub(super) fn remember(&mut self, replica: u32) {
        let there = &mut self.replicas[replica as usize];
        let opens = there.remember(self.now);
        self.changes[replica as usize] = Change::new(there);
        if opens {
            self.wake_all_for_news();
        }
    }

    /// An unforeseeable event: every gateway recomputes its next news.
    pub(super) fn news_everywhere(&mut self) {
        self.replicas.iter_mut().for_each(|replica| replica.opened = self.now);
        self.wake_all_for_news();
    }

    fn wake_all_for_news(&mut self) {
        for gateway in 0..self.gateways.len() {
            self.wake_for_news(gateway as u16);
        }
    }

    /// A gateway was run: schedules its next wake-up, and those of its peers if its digests may
    /// show free capacity from now on.
    pub(super) fn turned(&mut self, gateway: u16) {
        if !self.lazy() {
            return;
        }
        self.wake_for_news(gateway);
        let here = &mut self.gateways[usize::from(gateway)];
        let held = here.machine.held_len();
        let room = held == 0 || here.machine.anybody_open();
        let before = core::mem::replace(&mut here.shown.would_tell, (held, room));
        if room && (!before.1 || held < before.0) {
            for at in 0..self.gateways[usize::from(gateway)].peers.len() {
                self.wake_for_news(self.gateways[usize::from(gateway)].peers[at]);
            }
        }
    }

    /// A gateway that holds requests wakes when the next relevant message would arrive.
    fn wake_for_news(&mut self, gateway: u16) {
        let here = &self.gateways[usize::from(gateway)];
        if !self.lazy() || here.machine.held_len() == 0 {
            return;
        }
        let Some(due) = self.next_news(gateway, here.machine.minds_all_news()) else { return };
        let shown = &mut self.gateways[usize::from(gateway)].shown;
        if shown.wake.is_none_or(|w| w <= self.now || w > due) {
            shown.wake = Some(due);
            self.queue.push(due, Event::Wake { gateway });
        }
    }

    /// When the next message arrives, of `any` kind or of those that may show free capacity.
    fn next_news(&self, gateway: u16, any: bool) -> Option<Time> {
        let here = &self.gateways[usize::from(gateway)];
        let reports = here.knows.iter().enumerate().filter_map(|(own, known)| {
            let replica = &self.replicas[(*known)? as usize];
            self.next_report(here, own, replica, any)
        });
        let digests = here.peers.iter().enumerate();
        let digests = digests.filter_map(|(at, peer)| self.next_digest(here, at, *peer, any));
        reports.chain(digests).min()
    }

    fn next_report(&self, here: &Gateway, own: usize, of: &Replica, any: bool) -> Option<Time> {
        let rtt = self.network.rtt(here.region, of.hardware.region);
        let shown = here.shown.replicas.get(own).copied().unwrap_or_default();
        if !any && of.opened < shown.asked + rtt / 2 {
            return None;
        }
        // A replica that was just looked up has its next message computed already.
        if shown.next > self.now {
            return Some(shown.next);
        }
        let every = self.system.probe.busy;
        Some(beat_from(back(self.soon(), rtt), phase(own as u64, every), every) + rtt)
    }

    fn next_digest(&self, here: &Gateway, at: usize, peer: u16, any: bool) -> Option<Time> {
        let there = &self.gateways[usize::from(peer)];
        let shown = here.shown.peers.get(at).copied().unwrap_or_default();
        let mut newer = there.shown.digests.iter().rev().take_while(|d| d.1 > shown.number);
        let minds = |held, room| here.machine.minds_digest(PeerId(at as u16), held, room);
        let (held, room) = there.shown.would_tell;
        if !any && !minds(held, room) && !newer.any(|(.., d)| minds(d.held, d.eligible > 0)) {
            return None;
        }
        if shown.next > self.now {
            return Some(shown.next);
        }
        let half = self.network.rtt(there.region, here.region) / 2;
        let gap = self.digest_gap();
        let phase = phase(u64::from(peer) + 1000, gap);
        Some(beat_from(back(self.soon(), half), phase, gap) + half)
    }

    fn soon(&self) -> Time {
        self.now + Duration::from_nanos(1)
    }

    pub(super) fn wake(&mut self, gateway: u16) {
        let there = &mut self.gateways[usize::from(gateway)];
        if there.shown.wake != Some(self.now) || !there.up {
            return;
        }
        there.shown.wake = None;
        self.catch_up(gateway);
        self.drive(gateway);
    }
}

fn back(at: Time, by: Duration) -> Time {
    Time::from_nanos(at.as_nanos().saturating_sub(by.as_nanos() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Beats are phase, phase + every, ...; none before the phase.
    #[test]
    fn beats() {
        let (phase, every) = (Duration::from_millis(30), Duration::from_millis(100));
        let ms = Time::from_millis;
        assert_eq!(beat_until(ms(29), phase, every), None);
        assert_eq!(beat_until(ms(130), phase, every), Some(ms(130)));
        assert_eq!(beat_until(ms(229), phase, every), Some(ms(130)));
        assert_eq!(beat_from(ms(0), phase, every), ms(30));
        assert_eq!(beat_from(ms(131), phase, every), ms(230));
        assert_eq!(beat_from(ms(130), phase, every), ms(130));
    }
}
