//! Adds and retires replicas, region by region, and bills them.

use meridian_base::{Duration, Time};

use crate::event::Event;
use crate::news::Change;
use crate::replica::Replica;
use crate::scale::{RegionUse, Resize, Scaling};
use crate::world::World;

impl World {
    pub(super) fn scale(&mut self) {
        let Some(mut scaling) = self.scaling.take() else { return };
        for region in 0..self.regions.len() {
            self.scale_region(&mut scaling, region);
        }
        self.queue.push(self.now + scaling.every(), Event::Scale);
        self.scaling = Some(scaling);
        self.retire();
    }

    fn scale_region(&mut self, scaling: &mut Scaling, region: usize) {
        match scaling.decide(self.now, region, self.seen(region)) {
            Resize::Order(count) => {
                (0..count).for_each(|_| self.order(region, scaling.provisioning()));
            }
            Resize::GiveUp => self.give_up_one(region),
            Resize::Nothing => {}
        }
    }

    fn seen(&self, region: usize) -> RegionUse {
        let here = |r: &&Replica| scales(r, region) && r.up && !r.leaving;
        let outstanding: u32 =
            self.replicas.iter().filter(here).map(|r| r.engine.stats().outstanding()).sum();
        let gateways = self.gateways.iter().filter(|g| g.up && g.region == region);
        let held: u32 = gateways.map(|g| g.machine.held_len()).sum();
        RegionUse {
            present: self.replicas.iter().filter(here).count() as u32,
            requests: outstanding + held,
            all: self.replicas.iter().filter(|replica| !replica.gone).count(),
        }
    }

    /// Orders a replica like the first of the region, or of the world.
    fn order(&mut self, region: usize, after: Duration) {
        let answers = |r: &&Replica| r.hardware.role.answers();
        let like = self.replicas.iter().find(|r| scales(r, region));
        let like = like.or(self.replicas.iter().find(answers));
        let mut hardware = like.unwrap_or(&self.replicas[0]).hardware;
        hardware.region = region;
        let at = self.replicas.len();
        let mut replica = Replica::new(hardware, self.twin.is_some(), self.seed, at)
            .expect("the same settings were good before");
        replica.up = false;
        replica.since = None;
        self.changes.push(Change::new(&replica));
        self.replicas.push(replica);
        assert_eq!(self.changes.len(), self.replicas.len(), "each replica has reports");
        self.legs.add(&hardware);
        self.queue.push(self.now + after, Event::Provisioned { replica: at as u32 });
    }

    pub(super) fn provisioned(&mut self, replica: u32) {
        let at = replica as usize;
        self.replicas[at].up = true;
        self.replicas[at].since = Some(self.now);
        let region = self.replicas[at].hardware.region;
        if let Some(scaling) = &mut self.scaling {
            scaling.arrived(region);
        }
        for gateway in 0..self.gateways.len() as u16 {
            if !self.gateways[usize::from(gateway)].is_silent() && self.knows_by_rule(gateway, at) {
                self.join(gateway, replica);
                self.drive(gateway);
            }
        }
    }

    /// A gateway that resumes learns what was added and removed meanwhile.
    pub(super) fn learn_of_scaling(&mut self, gateway: u16) {
        if self.scaling.is_none() {
            return;
        }
        for at in 0..self.replicas.len() {
            let replica = at as u32;
            let known = self.gateways[usize::from(gateway)].id_of(replica).is_some();
            let there = &self.replicas[at];
            match (known, there.gone) {
                (true, true) => self.forget(gateway, replica),
                (true, false) if there.leaving => self.drain(gateway, replica),
                (false, false) if there.up && self.knows_by_rule(gateway, at) => {
                    self.join(gateway, replica);
                    self.drive(gateway);
                }
                _ => {}
            }
        }
    }

    fn give_up_one(&mut self, region: usize) {
        let there = |r: &Replica| scales(r, region) && r.up && !r.leaving;
        let Some(at) = self.replicas.iter().rposition(there) else { return };
        self.replicas[at].leaving = true;
        for gateway in 0..self.gateways.len() as u16 {
            if !self.gateways[usize::from(gateway)].is_silent() {
                self.drain(gateway, at as u32);
            }
        }
    }

    /// Removes drained replicas.
    fn retire(&mut self) {
        for at in 0..self.replicas.len() {
            let replica = at as u32;
            let done = self.replicas[at].leaving
                && self.replicas[at].up
                && self.flights.ids(|f| f.uses(replica)).is_empty();
            if !done {
                continue;
            }
            self.bill(at);
            (self.replicas[at].up, self.replicas[at].gone) = (false, true);
            for gateway in 0..self.gateways.len() as u16 {
                if !self.gateways[usize::from(gateway)].is_silent() {
                    self.forget(gateway, replica);
                }
            }
        }
    }

    /// Bills a replica up to now.
    fn bill(&mut self, at: usize) {
        let Some(since) = self.replicas[at].since.take() else { return };
        let from = since.max(Time::ZERO + self.measure.warmup);
        let until = self.now.min(self.end);
        self.report.replica_seconds += until.since(from).as_secs_f64();
    }

    pub(super) fn settle_bills(&mut self) {
        for at in 0..self.replicas.len() {
            self.bill(at);
        }
    }
}

/// Whether the autoscaler counts, adds and removes such replicas of a region: those that only
/// prefill are fixed.
fn scales(replica: &Replica, region: usize) -> bool {
    replica.hardware.region == region && replica.hardware.role.answers()
}
