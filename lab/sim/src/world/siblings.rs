//! Gateways of one region tell each other about their requests.
//!
//! A record takes a while and may be lost. The listener sees the gap in the numbers, and asks for
//! everything again: until that comes, it ignores further records.

use meridian_base::{ReplicaId, SiblingId, SiblingRecord, mix};
use meridian_routing::Input;

use crate::event::Event;
use crate::heard::Heard;
use crate::world::World;

/// Tag of the draws of lost records.
const LOSS: u64 = 0x4C4F_5353;

impl World {
    /// Sends a record to a gateway's siblings.
    pub(super) fn share(&mut self, from: u16, record: &SiblingRecord) {
        let Some(siblings) = self.system.siblings else { return };
        let Some(record) = self.by_world(from, record.clone()) else { return };
        for to in self.siblings_of(from) {
            let told = self.gateways[usize::from(from)].told_sibling(to);
            let draw = mix(mix(self.seed ^ LOSS, u64::from(from) << 16 | u64::from(to)), told);
            if (draw >> 11) as f64 / (1u64 << 53) as f64 >= siblings.loss {
                let event = Event::Sibling { to, from, number: told, record: record.clone() };
                self.queue.push(self.now + siblings.delay, event);
            }
        }
    }

    pub(super) fn hear_sibling(&mut self, to: u16, from: u16, number: u64, record: SiblingRecord) {
        if !self.gateways[usize::from(to)].up {
            return;
        }
        match self.gateways[usize::from(to)].heard(from) {
            Heard::UpTo(before) if number == before + 1 => {
                *self.gateways[usize::from(to)].heard_mut(from) = Heard::UpTo(number);
                self.tell_of_sibling(to, from, record);
                self.drive(to);
            }
            Heard::Asked => {}
            Heard::UpTo(before) if number <= before => {}
            _ => self.ask_sibling(to, from),
        }
    }

    /// Asks a sibling for everything.
    pub(super) fn ask_sibling(&mut self, to: u16, from: u16) {
        let Some(siblings) = self.system.siblings else { return };
        *self.gateways[usize::from(to)].heard_mut(from) = Heard::Asked;
        self.queue.push(self.now + siblings.delay, Event::SiblingAsked { by: to, of: from });
    }

    /// A gateway that starts asks all siblings.
    pub(super) fn ask_siblings(&mut self, to: u16) {
        for from in self.siblings_of(to) {
            self.ask_sibling(to, from);
        }
    }

    /// A sibling asks a gateway for everything.
    pub(super) fn sibling_asked(&mut self, by: u16, of: u16) {
        let Some(siblings) = self.system.siblings else { return };
        if !self.gateways[usize::from(of)].up {
            *self.gateways[usize::from(by)].heard_mut(of) = Heard::Nothing;
            return;
        }
        let number = self.gateways[usize::from(of)].told_to(by);
        let all = self.gateways[usize::from(of)].machine.at_replicas(self.now);
        let all = all.into_iter().filter_map(|record| self.by_world(of, record)).collect();
        let event = Event::SiblingAnswered { to: by, from: of, number, all };
        self.queue.push(self.now + siblings.delay, event);
    }

    pub(super) fn sibling_answered(
        &mut self,
        to: u16,
        from: u16,
        number: u64,
        all: Vec<SiblingRecord>,
    ) {
        let there = &mut self.gateways[usize::from(to)];
        if !there.up || there.heard(from) != Heard::Asked {
            return;
        }
        *there.heard_mut(from) = Heard::UpTo(number);
        self.tell_machine(to, Input::SiblingLost(SiblingId(from)));
        all.into_iter().for_each(|record| self.tell_of_sibling(to, from, record));
        self.drive(to);
    }

    /// A gateway is dead or silent: its siblings no longer count its requests.
    pub(super) fn sibling_gone(&mut self, gone: u16) {
        for to in self.siblings_of(gone) {
            *self.gateways[usize::from(to)].heard_mut(gone) = Heard::Nothing;
            if !self.gateways[usize::from(to)].is_silent() {
                self.tell_machine(to, Input::SiblingLost(SiblingId(gone)));
                self.drive(to);
            }
        }
    }

    /// A gateway that was suspended learns which siblings were lost meanwhile.
    pub(super) fn forget_lost_siblings(&mut self, at: u16) {
        for sibling in self.siblings_of(at) {
            if self.gateways[usize::from(at)].heard(sibling) == Heard::Nothing {
                self.tell_machine(at, Input::SiblingLost(SiblingId(sibling)));
            }
        }
    }

    fn tell_of_sibling(&mut self, to: u16, from: u16, record: SiblingRecord) {
        let known = |at: ReplicaId| self.gateways[usize::from(to)].id_of(u32::from(at.0));
        if let Some(record) = with_replica(record, known) {
            let records = vec![record];
            self.tell_machine(to, Input::Sibling { from: SiblingId(from), records });
        }
    }

    /// A gateway's record, with the replica's index in the world's list.
    fn by_world(&self, gateway: u16, record: SiblingRecord) -> Option<SiblingRecord> {
        let of = |own| self.gateways[usize::from(gateway)].replica_of(own);
        with_replica(record, |own| Some(ReplicaId(u16::try_from(of(own)?).ok()?)))
    }

    /// The other gateways of a gateway's region.
    fn siblings_of(&self, gateway: u16) -> Vec<u16> {
        if self.system.siblings.is_none() {
            return Vec::new();
        }
        let region = self.gateways[usize::from(gateway)].region;
        let of_region =
            |at: &u16| *at != gateway && self.gateways[usize::from(*at)].region == region;
        (0..self.gateways.len() as u16).filter(of_region).collect()
    }
}

/// A record with another id of its replica; none if there is no such replica.
fn with_replica(
    mut record: SiblingRecord,
    id: impl Fn(ReplicaId) -> Option<ReplicaId>,
) -> Option<SiblingRecord> {
    if let SiblingRecord::Sent(request) = &mut record {
        request.replica = id(request.replica)?;
    }
    Some(record)
}
