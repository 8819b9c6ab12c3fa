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

use meridian_base::{Duration, PeerId, ReplicaId, Time};
use meridian_routing::Input;

use crate::event::Event;
use crate::gateway::Gateway;
use crate::news::{Beats, Change, back};
use crate::replica::Replica;
use crate::scenario::News;
use crate::world::World;

impl World {
    pub(super) fn lazy(&self) -> bool {
        self.system.news == News::Lazy
    }

    /// The digests of a gateway.
    fn digest_beats(&self, gateway: u16) -> Beats {
        Beats::of(u64::from(gateway) + 1000, self.digest_gap())
    }

    /// The probes of a replica, by the gateway's own id of it.
    fn probe_beats(&self, own: usize) -> Beats {
        Beats::of(own as u64, self.system.probe.busy)
    }

    /// Shows a gateway the contents of all messages due by now.
    pub(super) fn catch_up(&mut self, gateway: u16) {
        if !self.lazy() {
            return;
        }
        self.catch_up_on_replicas(gateway);
        for at in 0..self.gateways[usize::from(gateway)].peers().len() {
            self.catch_up_on_peer(gateway, at);
        }
    }

    fn catch_up_on_replicas(&mut self, gateway: u16) {
        let at = usize::from(gateway);
        if self.gateways[at].shown.is_quiet(self.now) {
            return;
        }
        let count = self.gateways[at].knows().len();
        self.gateways[at].shown.resize(count);
        let mut soonest = Time::MAX;
        for own in 0..count {
            let Some(replica) = self.gateways[at].knows()[own] else { continue };
            if self.now >= self.gateways[at].shown.replica(own).next() {
                self.show_report(at, own, replica);
            }
            soonest = soonest.min(self.gateways[at].shown.replica(own).next());
        }
        self.gateways[at].shown.quiet_until(soonest);
    }

    /// Shows a gateway the newest report of a replica, if it is new.
    fn show_report(&mut self, at: usize, own: usize, replica: u32) {
        let change = self.changes[replica as usize];
        let (from, to) = (self.gateways[at].region, change.region());
        let same = self.gateways[at].shown.replica(own).unchanged(change);
        if same.is_none()
            && let Some(stopped) = &self.replicas[replica as usize].stopped
        {
            let since = stopped.since();
            return self.show_timeout(at, own, since);
        }
        let (rtt, beats) = (self.network.rtt(from, to), self.probe_beats(own));
        let shown = self.gateways[at].shown.replica(own);
        let Some(asked) = shown.ask(self.now, rtt, beats) else { return };
        let reachable = self.network.passes(from, to) && self.network.passes(to, from);
        let of = asked + rtt / 2;
        let there = || same.or_else(|| self.replicas[replica as usize].load_at(of));
        let load = reachable.then(there).flatten();
        self.gateways[at].shown.replica(own).hear(of, load);
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
        if self.gateways[at].shown.replica(own).times_out(self.now, since) {
            self.probe_failed(at as u16, ReplicaId(own as u16));
        }
    }

    fn catch_up_on_peer(&mut self, gateway: u16, at: usize) {
        let to = usize::from(gateway);
        let from = self.gateways[to].peers()[at];
        let version = self.gateways[usize::from(from)].offer.version();
        if self.gateways[to].shown.is_quiet_about(at, version, self.now) {
            return;
        }
        let (here, there) = (self.gateways[to].region, self.gateways[usize::from(from)].region);
        let silent = self.gateways[usize::from(from)].is_silent();
        if silent || !self.network.passes(there, here) {
            return;
        }
        let rtt = self.network.rtt(there, here);
        let (half, beats) = (rtt / 2, self.digest_beats(from));
        let beat = beats.until(back(self.now, half));
        if let Some(beat) = beat {
            self.make_digest(from, Some(beat));
        }
        let next = beats.after(beat) + half;
        let there = &self.gateways[usize::from(from)].offer;
        let (version, quiet) = (there.version(), next.min(there.due(beats)));
        let newest = beat.and_then(|beat| there.valid_at(beat));
        let seen = self.gateways[to].shown.peer(at);
        seen.looked(next, quiet, version);
        let Some((number, digest)) = newest.filter(|(number, _)| seen.hear(*number)) else {
            return;
        };
        let peer = PeerId(at as u16);
        let input = Input::Digested { peer, sent: number, rtt: Some(rtt), digest };
        self.gateways[to].machine.handle(self.now, input);
    }

    /// Makes the digest of a gateway's last beats before anything changes; for `beat`, again if the
    /// reports behind the last one are old.
    fn make_digest(&mut self, gateway: u16, beat: Option<Time>) {
        let (now, beats) = (self.now, self.digest_beats(gateway));
        let lacks = self.gateways[usize::from(gateway)].offer.lacks(beats, beat);
        let Some(valid) = lacks.filter(|valid| *valid <= now) else { return };
        self.catch_up_on_replicas(gateway);
        let there = &mut self.gateways[usize::from(gateway)];
        there.told_digests += 1;
        let digest = Arc::new(there.machine.digest());
        there.offer.add(now, valid, there.told_digests, digest);
    }

    /// A machine is about to get an input: the digest of the state so far is made first.
    pub(super) fn before_telling(&mut self, gateway: u16) {
        if self.lazy() && self.forwards() {
            self.make_digest(gateway, None);
            self.gateways[usize::from(gateway)].offer.input(self.now);
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
        let before = here.offer.will_tell(held, room);
        if room && (!before.1 || held < before.0) {
            for at in 0..self.gateways[usize::from(gateway)].peers().len() {
                self.wake_for_news(self.gateways[usize::from(gateway)].peers()[at]);
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
        if self.gateways[usize::from(gateway)].shown.wake_at(due, self.now) {
            self.queue.push(due, Event::Wake { gateway });
        }
    }

    /// When the next message arrives, of `any` kind or of those that may show free capacity.
    fn next_news(&self, gateway: u16, any: bool) -> Option<Time> {
        let here = &self.gateways[usize::from(gateway)];
        let reports = here.knows().iter().enumerate().filter_map(|(own, known)| {
            let replica = &self.replicas[(*known)? as usize];
            self.next_report(here, own, replica, any)
        });
        let digests = here.peers().iter().enumerate();
        let digests = digests.filter_map(|(at, peer)| self.next_digest(here, at, *peer, any));
        reports.chain(digests).min()
    }

    fn next_report(&self, here: &Gateway, own: usize, of: &Replica, any: bool) -> Option<Time> {
        let rtt = self.network.rtt(here.region, of.hardware.region);
        let shown = here.shown.of_replica(own);
        if !any && !shown.may_open(of.opened, rtt) {
            return None;
        }
        // A replica that was just looked up has its next message computed already.
        if shown.next() > self.now {
            return Some(shown.next());
        }
        Some(self.probe_beats(own).from(back(self.soon(), rtt)) + rtt)
    }

    fn next_digest(&self, here: &Gateway, at: usize, peer: u16, any: bool) -> Option<Time> {
        let there = &self.gateways[usize::from(peer)];
        let shown = here.shown.of_peer(at);
        let mut newer = there.offer.newer_than(shown.number());
        let minds = |held, room| here.machine.minds_digest(PeerId(at as u16), held, room);
        let (held, room) = there.offer.would_tell();
        if !any && !minds(held, room) && !newer.any(|d| minds(d.held, d.eligible > 0)) {
            return None;
        }
        if shown.next() > self.now {
            return Some(shown.next());
        }
        let half = self.network.rtt(there.region, here.region) / 2;
        Some(self.digest_beats(peer).from(back(self.soon(), half)) + half)
    }

    fn soon(&self) -> Time {
        self.now + Duration::from_nanos(1)
    }

    pub(super) fn wake(&mut self, gateway: u16) {
        let there = &mut self.gateways[usize::from(gateway)];
        if !there.up || !there.shown.wakes(self.now) {
            return;
        }
        self.catch_up(gateway);
        self.drive(gateway);
    }
}
