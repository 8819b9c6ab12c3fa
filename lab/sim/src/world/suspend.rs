//! Suspends and resumes replicas and gateways, and models the others' reactions.

use meridian_base::{Duration, ReplicaId, RequestId, Time};
use meridian_routing::{Ineligible, Input, Outcome, Output, Routing};

use crate::event::Event;
use crate::stopped::{PROBE_TIMEOUT, Stopped};
use crate::world::World;

/// A peer that has been silent for this long is gone.
const GONE: Duration = Duration::from_secs(2);
/// The replicas of a gateway without a sign of life for this long are reassigned.
const LEASE: Duration = Duration::from_secs(5);
/// A client without a byte of an answer retries elsewhere after this.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long an answer in progress may be silent once its replica is down.
const GRACE: Duration = Duration::from_secs(3);

impl World {
    /// Keeps an event for a suspended process; returns it if none is concerned. Timers are set
    /// again on resume.
    pub(super) fn unless_stopped(&mut self, event: Event) -> Option<Event> {
        use Event::{
            Arrive, Digest, Ended, Engine, First, Gateway, Inherited, Kv, Look, Prefilled, Report,
            Sibling, SiblingAnswered, SiblingAsked, Steal, Submit, Tell, Wake,
        };
        let stopped = match &event {
            Submit { replica, .. } | Engine { replica } | Kv { replica, .. } => {
                &mut self.replicas[*replica as usize].stopped
            }
            Arrive { gateway, .. }
            | Prefilled { gateway, .. }
            | First { gateway, .. }
            | Ended { gateway, .. }
            | Gateway { gateway }
            | Wake { gateway }
            | Look { gateway }
            | Report { gateway, .. }
            | Tell { gateway }
            | Digest { to: gateway, .. }
            | Steal { to: gateway, .. }
            | Sibling { to: gateway, .. }
            | SiblingAnswered { to: gateway, .. }
            | SiblingAsked { of: gateway, .. }
            | Inherited { gateway, .. } => &mut self.gateways[usize::from(*gateway)].stopped,
            _ => return Some(event),
        };
        let Some(stopped) = stopped else { return Some(event) };
        let since = stopped.since();
        if let Arrive { id, gateway, .. } = event {
            let patient = self.now + PATIENCE;
            self.queue.push(patient, Event::Impatient { id, gateway, since });
        }
        if !matches!(event, Gateway { .. } | Wake { .. } | Look { .. } | Engine { .. }) {
            stopped.keep(event);
        }
        None
    }

    pub(super) fn replica_stopped(&mut self, at: u32) {
        let now = self.now;
        let there = &mut self.replicas[at as usize];
        if there.up && there.stopped.is_none() {
            there.stopped = Some(Stopped::new(now));
            self.remember(at);
            self.look_for_timeouts(now);
        }
    }

    /// If probes are looked up, gateways check when those of a suspended replica fail: no other
    /// event may occur there.
    fn look_for_timeouts(&mut self, since: Time) {
        if !self.lazy() {
            return;
        }
        for nth in 1..=self.system.probe.down_after {
            for gateway in 0..self.gateways.len() as u16 {
                self.queue.push(since + PROBE_TIMEOUT * nth, Event::Look { gateway });
            }
        }
    }

    pub(super) fn look(&mut self, gateway: u16) {
        if self.gateways[usize::from(gateway)].up {
            self.catch_up(gateway);
            self.drive(gateway);
        }
    }

    pub(super) fn replica_continued(&mut self, at: u32) {
        let now = self.now;
        let there = &mut self.replicas[at as usize];
        let Some(stopped) = there.stopped.take() else { return };
        let resumed = stopped.resume(now);
        // For the engine no time has passed.
        there.lag += resumed.after;
        there.timer = None;
        for name in resumed.hung_up {
            self.abort_as(name, at);
        }
        self.replay(resumed.waiting);
        self.pump(at);
        self.remember(at);
    }

    pub(super) fn gateway_stopped(&mut self, at: u16) {
        let since = self.now;
        let there = &mut self.gateways[usize::from(at)];
        if !there.up || there.stopped.is_some() {
            return;
        }
        there.stopped = Some(Stopped::new(since));
        for id in self.flights.ids(|f| f.entry() == at && f.may_move()) {
            self.queue.push(since + PATIENCE, Event::Impatient { id, gateway: at, since });
        }
        self.queue.push(since + GONE, Event::Gone { gateway: at, since });
        self.queue.push(since + LEASE, Event::Adopt);
    }

    pub(super) fn gateway_continued(&mut self, at: u16) {
        let Some(stopped) = self.gateways[usize::from(at)].stopped.take() else { return };
        let resumed = stopped.resume(self.now);
        self.gateways[usize::from(at)].timer = None;
        self.cancel(at, &resumed.hung_up);
        self.forget_lost_siblings(at);
        self.replay(resumed.waiting);
        self.drive(at);
        self.learn_of_scaling(at);
        self.adopt();
    }

    fn replay(&mut self, waiting: Vec<Event>) {
        for event in waiting {
            self.queue.push(self.now, event);
        }
    }

    /// A request is abandoned at this gateway, which learns of it when it can.
    pub(super) fn hang_up(&mut self, gateway: u16, id: RequestId) {
        let there = &mut self.gateways[usize::from(gateway)];
        match &mut there.stopped {
            _ if !there.up => {}
            Some(stopped) => stopped.hang_up(id),
            None => {
                self.cancel(gateway, &[id]);
                self.drive(gateway);
            }
        }
    }

    /// Cancels abandoned requests in a machine. Its actions for a request before that have no
    /// effect.
    fn cancel(&mut self, gateway: u16, ids: &[RequestId]) {
        for id in ids {
            self.tell_machine(gateway, Input::Cancelled(*id));
        }
        while let Some(output) = self.gateways[usize::from(gateway)].machine.poll() {
            let (Output::Dispatch { id, .. }
            | Output::Forward { id, .. }
            | Output::Held(id)
            | Output::Reject { id, .. }) = output
            else {
                self.obey(gateway, output);
                continue;
            };
            if !ids.contains(&id) {
                self.obey(gateway, output);
            }
        }
    }

    /// The same at a replica. True if it is suspended, and learns of it later.
    pub(super) fn hang_up_later(&mut self, name: RequestId, replica: u32) -> bool {
        let stopped = &mut self.replicas[replica as usize].stopped;
        stopped.as_mut().map(|stopped| stopped.hang_up(name)).is_some()
    }

    /// Whether a gateway has been silent for so long that its peers consider it gone.
    pub(super) fn is_gone(&self, gateway: u16) -> bool {
        self.silent_for(gateway, GONE)
    }

    /// Whether its replicas may be reassigned.
    pub(super) fn lost_its_lease(&self, gateway: usize) -> bool {
        self.silent_for(gateway as u16, LEASE)
    }

    /// Whether clients avoid it at once.
    pub(super) fn is_avoided(&self, gateway: usize) -> bool {
        self.silent_for(gateway as u16, PATIENCE)
    }

    fn silent_for(&self, gateway: u16, time: Duration) -> bool {
        let there = &self.gateways[usize::from(gateway)];
        !there.up || there.stopped.as_ref().is_some_and(|s| s.time(self.now) >= time)
    }

    fn still_stopped(&self, gateway: u16, since: Time) -> bool {
        let stopped = &self.gateways[usize::from(gateway)].stopped;
        stopped.as_ref().is_some_and(|stopped| stopped.since() == since)
    }

    /// A client gives up on a silent gateway.
    pub(super) fn impatient(&mut self, id: RequestId, gateway: u16, since: Time) {
        let waits = |f: &&crate::flight::Flight| f.entry() == gateway && f.may_move();
        if self.flights.get(id).filter(waits).is_none() || !self.still_stopped(gateway, since) {
            return;
        }
        self.abandon(id);
        self.hang_up(gateway, id);
        let now = self.now;
        if let Some(flight) = self.flights.get_mut(id) {
            flight.leave_queue(now);
        }
        self.enter(id);
    }

    /// Peers give up on a silent gateway: requests there without a first byte go elsewhere.
    pub(super) fn gone(&mut self, gateway: u16, since: Time) {
        if !self.still_stopped(gateway, since) {
            return;
        }
        self.sibling_gone(gateway);
        for id in self.flights.ids(|f| f.peer() == Some(gateway) && f.may_move()) {
            self.abandon(id);
            let Some(flight) = self.flights.get(id) else { continue };
            let (entry, attempt, outcome) =
                (flight.entry(), flight.attempt(), Outcome::ReplicaError);
            self.queue.push(self.now, Event::Ended { id, gateway: entry, attempt, outcome });
        }
    }

    /// Reports a failed probe to a machine, for which the replica may then be down.
    pub(super) fn probe_failed(&mut self, gateway: u16, id: ReplicaId) {
        let now = self.now;
        let machine = &mut self.gateways[usize::from(gateway)].machine;
        let is_down =
            |machine: &Routing| machine.replicas().row(id).closed == Some(Ineligible::Down);
        let before = is_down(machine);
        machine.handle(now, Input::ProbeFailed(id));
        if !before && is_down(machine) {
            self.went_down(gateway, id);
        }
    }

    /// Requests do not wait for a replica that is down.
    fn went_down(&mut self, gateway: u16, own: ReplicaId) {
        let known = self.gateways[usize::from(gateway)].replica_of(own);
        let Some(replica) = known else { return };
        // A held request was there with an earlier attempt.
        let here = |f: &crate::flight::Flight| {
            let there = f.replica() == Some(replica) && !f.is_held();
            there && f.sender() == gateway && !f.is_ending()
        };
        for id in self.flights.ids(here) {
            let Some(flight) = self.flights.get(id) else { continue };
            let (attempt, started) = (flight.attempt(), flight.has_streamed());
            let at = if started { self.now + GRACE } else { self.now };
            self.queue.push(at, Event::Broken { id, gateway, replica, attempt });
        }
    }

    /// Gives up an attempt, unless its replica has resumed or another attempt is in progress.
    pub(super) fn broken(&mut self, id: RequestId, gateway: u16, replica: u32, attempt: u32) {
        let same = |f: &&crate::flight::Flight| {
            f.attempt() == attempt && f.replica() == Some(replica) && !f.is_held()
        };
        let silent = self.replicas[replica as usize].stopped.is_some();
        if !silent || self.flights.get(id).filter(same).is_none() {
            return;
        }
        // The gateway ends a split attempt when it gets the event below.
        if self.flights.get(id).is_some_and(|flight| flight.split().is_none()) {
            self.abort(id, replica);
        }
        let Some(flight) = self.flights.get_mut(id) else { return };
        // Messages pending in the replica's sockets no longer count.
        let attempt = flight.next_attempt();
        let outcome = self.failure(id, Outcome::Unreached);
        self.queue.push(self.now, Event::Ended { id, gateway, attempt, outcome });
    }
}
