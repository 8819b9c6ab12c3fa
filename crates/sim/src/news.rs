//! Probes and digests that are looked up instead of sent.
//!
//! A probe every 100 ms of every replica, and as many digests, are nearly all events of a run, and
//! hardly any is looked at: a gateway decides when a request arrives, or when it holds some. So the
//! lazy way keeps a short history of each replica, and of each gateway's digests, and shows a
//! gateway that is about to decide just what the newest message would have told it: the state at
//! the time that the probe would have got there. While requests are held, any message may release
//! one, and the gateway wakes when the next is due.

use std::collections::VecDeque;
use std::sync::Arc;

use meridian_base::{Duration, ReplicaId, Time, mix};
use meridian_routing::{Digest, Input};

use crate::event::Event;
use crate::scenario::News;
use crate::world::World;

/// Digests kept a gateway: those that may still be on their way to the farthest peer.
const KEPT: usize = 32;

/// What a gateway has been shown, and what it has to show.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// When the newest report of each replica was asked for, by the gateway's own id.
    asked: Vec<Time>,
    /// The number of the newest digest of each peer.
    numbers: Vec<u64>,
    /// Its own digests: valid from, number, content.
    digests: VecDeque<(Time, u64, Arc<Digest>)>,
    /// When the newest digest was made, and when its machine was last told anything.
    made: Time,
    told: Time,
    /// When it wakes for the next message.
    wake: Option<Time>,
}

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
    pub(crate) fn lazy(&self) -> bool {
        self.system.news == News::Lazy
    }

    /// Shows a gateway what messages would have told it by now.
    pub(crate) fn catch_up(&mut self, gateway: u16) {
        if !self.lazy() {
            return;
        }
        self.catch_up_on_replicas(gateway);
        for at in 0..self.gateways[usize::from(gateway)].peers.len() {
            self.catch_up_on_peer(gateway, at);
        }
    }

    fn catch_up_on_replicas(&mut self, gateway: u16) {
        let every = self.system.probe.busy;
        let at = usize::from(gateway);
        for own in 0..self.gateways[at].knows.len() {
            let Some(replica) = self.gateways[at].knows[own] else { continue };
            let (from, to) =
                (self.gateways[at].region, self.replicas[replica as usize].hardware.region);
            let rtt = self.network.rtt(from, to);
            let back = Time::from_nanos(self.now.as_nanos().saturating_sub(rtt.as_nanos() as u64));
            let Some(asked) = beat_until(back, phase(own as u64, every), every) else { continue };
            let shown = &mut self.gateways[at].shown;
            shown.asked.resize(shown.asked.len().max(own + 1), Time::ZERO);
            if asked <= shown.asked[own] {
                continue;
            }
            shown.asked[own] = asked;
            let reachable = self.network.passes(from, to) && self.network.passes(to, from);
            let load = reachable
                .then(|| self.replicas[replica as usize].recall(asked + rtt / 2))
                .flatten();
            let id = ReplicaId(own as u16);
            let input = match load {
                Some(load) => Input::Reported { id, asked, load },
                None => Input::ProbeFailed(id),
            };
            self.gateways[at].machine.handle(self.now, input);
        }
    }

    fn catch_up_on_peer(&mut self, gateway: u16, at: usize) {
        let to = usize::from(gateway);
        let from = self.gateways[to].peers[at];
        let (here, there) = (self.gateways[to].region, self.gateways[usize::from(from)].region);
        if !self.gateways[usize::from(from)].up || !self.network.passes(there, here) {
            return;
        }
        let rtt = self.network.rtt(there, here);
        let sent = self.now.as_nanos().saturating_sub(rtt.as_nanos() as u64 / 2);
        let every = self.digest_gap();
        let beat = beat_until(Time::from_nanos(sent), phase(u64::from(from) + 1000, every), every);
        let Some(beat) = beat else { return };
        self.make_digest(from, Some(beat));
        let digests = &self.gateways[usize::from(from)].shown.digests;
        let newest = digests.iter().rev().find(|(valid, _, _)| *valid <= beat);
        let Some((_, number, digest)) = newest else { return };
        let (number, digest) = (*number, Digest::clone(digest));
        let shown = &mut self.gateways[to].shown;
        shown.numbers.resize(shown.numbers.len().max(at + 1), 0);
        if number <= shown.numbers[at] {
            return;
        }
        shown.numbers[at] = number;
        let peer = meridian_base::PeerId(at as u16);
        let input = Input::Digested { peer, sent: number, rtt: Some(rtt), digest };
        self.gateways[to].machine.handle(self.now, input);
    }

    /// Makes the digest that a gateway's last beats told, before anything changes; for `beat`, anew
    /// if the reports behind the last one are old.
    pub(crate) fn make_digest(&mut self, gateway: u16, beat: Option<Time>) {
        let every = self.digest_gap();
        let at = usize::from(gateway);
        let shown = &self.gateways[at].shown;
        let first = beat_from(shown.told, phase(u64::from(gateway) + 1000, every), every);
        let newest = shown.digests.back().map(|d| d.0);
        let valid = match (newest, beat) {
            (Some(newest), Some(beat)) if newest >= first => {
                // Nothing happened there since; only its replicas' reports move on.
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
        there.told_digests += 1;
        let digest = Arc::new(there.machine.digest(now));
        there.shown.digests.push_back((valid, there.told_digests, digest));
        there.shown.made = now;
        if there.shown.digests.len() > KEPT {
            there.shown.digests.pop_front();
        }
    }

    /// A machine is about to be told something: the digest of the state so far is made first.
    pub(crate) fn before_telling(&mut self, gateway: u16) {
        if self.lazy() && self.forwards() {
            self.make_digest(gateway, None);
            self.gateways[usize::from(gateway)].shown.told = self.now;
        }
    }

    /// A gateway that holds requests wakes when the next message would reach it.
    pub(crate) fn wake_for_news(&mut self, gateway: u16) {
        let at = usize::from(gateway);
        if !self.lazy() || self.gateways[at].machine.held_len() == 0 {
            return;
        }
        let due = self.next_news(gateway);
        let shown = &mut self.gateways[at].shown;
        if shown.wake.is_none_or(|w| w <= self.now || w > due) {
            shown.wake = Some(due);
            self.queue.push(due, Event::Wake { gateway });
        }
    }

    fn next_news(&self, gateway: u16) -> Time {
        let here = &self.gateways[usize::from(gateway)];
        let after = self.now + Duration::from_nanos(1);
        let every = self.system.probe.busy;
        let reports = here.knows.iter().enumerate().filter_map(|(own, known)| {
            let to = self.replicas[(*known)? as usize].hardware.region;
            let rtt = self.network.rtt(here.region, to);
            Some(beat_from(back(after, rtt), phase(own as u64, every), every) + rtt)
        });
        let gap = self.digest_gap();
        let digests = here.peers.iter().map(|peer| {
            let half = self.network.rtt(self.gateways[usize::from(*peer)].region, here.region) / 2;
            beat_from(back(after, half), phase(u64::from(*peer) + 1000, gap), gap) + half
        });
        reports.chain(digests).min().unwrap_or(after + every)
    }

    pub(crate) fn wake(&mut self, gateway: u16) {
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
