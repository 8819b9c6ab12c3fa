//! How a world starts, and how its gateways get to know replicas and peers.

use std::sync::Arc;

use meridian_base::{Duration, Time};
use meridian_routing::Input;

use super::{Touched, World};
use crate::clients::Clients;
use crate::event::Event;
use crate::flights::Flights;
use crate::gateway::{Gateway, Sizes};
use crate::granularity::Granularity;
use crate::impossible::{Impossible, validate};
use crate::legs::Legs;
use crate::network::Network;
use crate::news::Change;
use crate::oracle::Oracle;
use crate::queue::EventQueue;
use crate::replica::Replica;
use crate::report::Report;
use crate::rules::Rules;
use crate::scale::Scaling;
use crate::scenario::{Scenario, Topology};
use crate::twin::Twin;

impl World {
    pub(crate) fn new(scenario: Scenario, twin: Option<Twin>) -> Result<World, Impossible> {
        validate(&scenario)?;
        let replica = |(at, hardware): (usize, &crate::Hardware)| {
            Replica::new(*hardware, twin.is_some(), scenario.seed, at)
                .map_err(|why| Impossible::Engine { replica: at, why })
        };
        let replicas: Vec<Replica> =
            scenario.replicas.iter().enumerate().map(replica).collect::<Result<_, _>>()?;
        let oracle = match scenario.system.topology {
            Topology::Oracle(objective) => Some(Oracle::new(objective)),
            _ => None,
        };
        let mut world = World {
            now: Time::ZERO,
            end: Time::ZERO + scenario.measure.warmup + scenario.measure.window,
            seed: scenario.seed,
            queue: EventQueue::new(twin.map_or(Duration::ZERO, |t| t.tick)),
            scaling: scenario
                .autoscaler
                .map(|rule| Scaling::new(rule, scenario.regions.len(), scenario.replicas.len())),
            rules: Rules::new(&scenario.regions, &scenario.loads),
            regions: scenario.regions,
            network: Network::new(scenario.wan, scenario.seed),
            granularity: Granularity::of(&scenario.system),
            system: scenario.system,
            changes: replicas.iter().map(Change::new).collect(),
            replicas,
            gateways: Vec::new(),
            oracle,
            clients: Clients::default(),
            flights: Flights::default(),
            legs: Legs::new(&scenario.racks),
            faults: scenario.faults,
            uncontrolled: false,
            measure: scenario.measure,
            paranoid: scenario.paranoid,
            twin,
            touched: Touched::default(),
            #[cfg(test)]
            untold: false,
            report: Report { window: scenario.measure.window, ..Report::default() },
        };
        world.replicas.iter().for_each(|replica| world.legs.add(&replica.hardware));
        world.found();
        world.start_loads(scenario.loads);
        Ok(world)
    }

    /// Sets up gateways and schedules the initial events.
    fn found(&mut self) {
        if self.oracle.is_none() {
            self.found_gateways();
        }
        for at in 0..self.faults.len() {
            self.queue.push(self.faults[at].0, Event::Fault { at: at as u32 });
        }
        if let Some(scaling) = &self.scaling {
            self.queue.push(Time::ZERO + scaling.every(), Event::Scale);
        }
        self.queue.push(Time::ZERO + self.measure.warmup, Event::Sample);
    }

    fn found_gateways(&mut self) {
        let places: Vec<usize> = match self.system.topology {
            Topology::Central { region } => vec![region],
            _ => (0..self.regions.len()).collect(),
        };
        let most = self.scaling.as_ref().map_or(self.replicas.len(), Scaling::most);
        let sizes = Sizes::new(&self.system, &self.replicas, most);
        for region in places {
            for _ in 0..self.system.gateways.max(1) {
                let at = self.gateways.len();
                assert!(at < usize::from(u16::MAX), "{at} gateways, more than numbers");
                let mut gateway = Gateway::new(region, &self.system, sizes, self.seed, at);
                if let Some(twin) = self.twin {
                    gateway.reseed(&self.system, twin.gateway_seed);
                }
                self.gateways.push(gateway);
            }
        }
        for at in 0..self.gateways.len() {
            self.introduce(at as u16);
        }
    }

    /// Adds its replicas and peers to a new gateway.
    pub(super) fn introduce(&mut self, at: u16) {
        self.tell_atlas(at);
        for replica in 0..self.replicas.len() {
            if self.replicas[replica].up && self.knows_by_rule(at, replica) {
                self.join(at, replica as u32);
            }
        }
        self.gateways[usize::from(at)].leave_peers();
        if self.forwards() {
            self.meet_peers(at);
            if !self.lazy() {
                self.queue.push(self.now + self.system.digests.every, Event::Tell { gateway: at });
            }
        }
        self.drive(at);
    }

    /// Gives a gateway the regions of its own replicas and of those it may forward to, as its
    /// configuration would.
    fn tell_atlas(&mut self, at: u16) {
        if !self.rules.is_empty() {
            let known = (0..self.regions.len()).filter(|region| self.reaches(at, *region));
            let atlas = Arc::new(self.rules.atlas(known));
            let now = self.now;
            self.gateways[usize::from(at)].machine.handle(now, Input::Atlas(atlas));
        }
    }

    /// Whether a gateway has or forwards to replicas of a region, while all gateways live.
    pub(super) fn reaches(&self, gateway: u16, region: usize) -> bool {
        let own = self.gateways[usize::from(gateway)].region;
        let near = || self.regions[own].continent == self.regions[region].continent;
        match self.system.topology {
            Topology::Continent { .. } => near(),
            Topology::RegionLocal => own == region,
            _ => true,
        }
    }

    fn meet_peers(&mut self, at: u16) {
        let own = self.gateways[usize::from(at)].region;
        let gateways = usize::from(self.system.gateways.max(1) as u16);
        for peer in 0..self.gateways.len() {
            let region = self.gateways[peer].region;
            // Gateways of a region pair up with those of another.
            if region == own || peer % gateways != usize::from(at) % gateways {
                continue;
            }
            let rtt = self.network.rtt(own, region);
            let near = self.regions[own].continent == self.regions[region].continent;
            let now = self.now;
            self.gateways[usize::from(at)].meet(now, peer as u16, rtt, near);
        }
    }

    /// Whether gateways forward to each other.
    pub(super) fn forwards(&self) -> bool {
        use Topology::{Continent, TwoLayer, Waterfall};
        matches!(self.system.topology, TwoLayer | Waterfall { .. } | Continent { .. })
    }

    /// Whether a gateway has a replica among its own, while all gateways live.
    pub(super) fn knows_by_rule(&self, gateway: u16, replica: usize) -> bool {
        match self.system.topology {
            Topology::Central { .. } | Topology::Flat => true,
            _ => {
                let region = self.replicas[replica].hardware.region;
                self.gateways[usize::from(gateway)].region == region
            }
        }
    }

    pub(super) fn join(&mut self, gateway: u16, replica: u32) {
        let known = &self.replicas[replica as usize];
        let known = (known, self.rules.place(known.hardware.region));
        self.gateways[usize::from(gateway)].learn(self.now, replica, known, &self.network);
    }
}
