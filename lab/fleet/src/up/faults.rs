//! Injects faults and repairs them: kills, suspends or ends real processes, and resets, silences or
//! slows down real links.

use std::num::NonZeroU64;
use std::time::Duration;

use meridian_protocol::units::Span;
use meridian_wan::config::{LinkState, Rate, SetLink};

use super::acts::{again, end, signalled, unknown};
use super::order::{Act, Order, What};
use super::region::Region;
use super::world::World;
use super::{Options, arrange};
use crate::{Error, Result};

/// Additional delay, jitter, and bytes a second of a slow link.
const SLOW: (Duration, Duration, u64) =
    (Duration::from_millis(400), Duration::from_millis(100), 256 << 10);

impl World {
    /// Performs an order. Killing a dead process or reviving a living one changes nothing.
    pub(super) async fn obey(&mut self, options: &Options, order: &Order) -> Result<()> {
        if !order.makes_sense() {
            return Err(Error::Setting {
                field: "act",
                value: format!("{:?}", order.act).to_lowercase(),
                remedy:
                    "use kill, revive, cut or slow for a link or a path; kill, revive, restart, stop, end \
                     or reload for a program; edit for a gateway only; slow for a member of etcd; fail, \
                     tell, stall or close for a replica"
                        .into(),
            });
        }
        match order.what {
            What::Link => return self.link(order).await,
            What::Path => {
                let Some(paths) = &self.paths else {
                    return Err(unknown(&order.name, ["a run that relays KV"]));
                };
                return paths.set(set_link(order.act, Span::millis(0))).await;
            }
            What::Control | What::Etcd => {
                let Some(planes) = &mut self.planes else {
                    return Err(unknown(&order.name, ["a fleet of several regions"]));
                };
                return match order.what {
                    What::Etcd => planes.etcd_act(&self.fleet, &order.name, order.act).await,
                    _ => planes.act(&self.fleet, &order.name, order.act).await,
                };
            }
            What::Replica => {
                let (region, replica) = self.replica(&order.name)?;
                self.replica_act(options, region, replica, order.act).await?;
            }
            What::Gateway => {
                let region = self.region(&order.name)?;
                self.gateway_act(region, order.act).await?;
            }
            What::Region => self.region_act(options, self.region(&order.name)?, order.act).await?,
        }
        Ok(())
    }

    async fn region_act(&mut self, options: &Options, at: usize, act: Act) -> Result<()> {
        let region = self.regions[at].number;
        let all = self.regions.iter().enumerate();
        let gateways = all.filter(|(_, one)| one.number == region).map(|(at, _)| at);
        let gateways: Vec<usize> = gateways.collect();
        // The gateways die first, or they would see their replicas die one by one.
        for at in gateways.iter().filter(|_| matches!(act, Act::Kill | Act::Stop)) {
            self.gateway_act(*at, act).await?;
        }
        for replica in 0..self.regions[region].replicas.len() {
            self.replica_act(options, region, replica, act).await?;
        }
        for at in gateways {
            self.gateway_act(at, act).await?;
        }
        Ok(())
    }

    fn region(&self, name: &str) -> Result<usize> {
        let found = self.regions.iter().position(|region| region.name == name);
        found.ok_or_else(|| unknown(name, self.regions.iter().map(|region| region.name.as_str())))
    }

    fn replica(&self, name: &str) -> Result<(usize, usize)> {
        for (at, region) in self.regions.iter().enumerate() {
            if let Some(nth) = region.replicas.iter().position(|replica| replica.name == name) {
                return Ok((at, nth));
            }
        }
        let all = self.regions.iter().flat_map(|region| &region.replicas);
        Err(unknown(name, all.map(|replica| replica.name.as_str())))
    }

    async fn replica_act(
        &mut self,
        options: &Options,
        region: usize,
        nth: usize,
        act: Act,
    ) -> Result<()> {
        let (fleet, maker, paths) = (&self.fleet, &self.maker, self.paths.as_ref());
        let replica = &mut self.regions[region].replicas[nth];
        if act.is_asked_for() {
            replica.misbehaves = true;
            return replica.ask_for(Some(act)).await;
        }
        if std::mem::take(&mut replica.misbehaves) && act == Act::Revive {
            return replica.ask_for(None).await;
        }
        if signalled(replica.process.as_mut(), act) {
            return Ok(());
        }
        if let Some(mut process) = replica.process.take() {
            replica.restarts += 1;
            match act {
                Act::Kill => return process.kill().await,
                _ => end(&mut process).await?,
            }
        }
        if act != Act::Kill && replica.process.is_none() {
            let port = replica.url.rsplit(':').next().and_then(|port| port.parse().ok());
            let port = port.unwrap_or(0);
            let start =
                || maker.replica(fleet, options, paths, (&replica.name, replica.role), port);
            replica.process = Some(again(start).await?);
        }
        Ok(())
    }

    async fn gateway_act(&mut self, region: usize, act: Act) -> Result<()> {
        let there: &mut Region = &mut self.regions[region];
        if act == Act::Edit {
            return there.edit(&self.fleet);
        }
        if signalled(there.gateway.as_mut().map(|gateway| &mut gateway.process), act) {
            return Ok(());
        }
        if let Some(mut gateway) = there.gateway.take() {
            there.restarts += 1;
            match act {
                Act::Kill => return gateway.process.kill().await,
                _ => end(&mut gateway.process).await?,
            }
        }
        if act != Act::Kill && there.gateway.is_none() && there.spec.is_some() {
            let gateway = again(|| there.new_gateway(&self.fleet)).await?;
            there.settle_in(gateway);
            self.set_routes().await?;
        }
        Ok(())
    }

    async fn link(&mut self, order: &Order) -> Result<()> {
        let Some(distance) = &self.distance else {
            return Err(unknown(&order.name, ["a run with links"]));
        };
        for (from, to) in self.ways(&order.name)? {
            let set = set_link(order.act, arrange::delay(from, to));
            distance.set_way(&from.name, &to.name, set).await?;
        }
        Ok(())
    }

    /// The ways of a link, `us/eu` in both directions, or `us>eu` in one; of `us`, of all its links.
    fn ways(&self, name: &str) -> Result<Vec<(&Region, &Region)>> {
        let at = |name| self.region(name).map(|at| &self.regions[at]);
        if let Some((from, to)) = name.split_once('>') {
            return Ok(self.gateways_between(at(from)?, at(to)?));
        }
        if let Some((a, b)) = name.split_once('/') {
            let (a, b) = (at(a)?, at(b)?);
            return Ok([self.gateways_between(a, b), self.gateways_between(b, a)].concat());
        }
        let here = at(name)?;
        let others = self.regions.iter().filter(|other| other.name != here.name);
        Ok(others.flat_map(|other| [(here, other), (other, here)]).collect())
    }

    /// The pairs of gateways whose link it is: those of two regions, or two of one region.
    fn gateways_between<'a>(
        &'a self,
        from: &'a Region,
        to: &'a Region,
    ) -> Vec<(&'a Region, &'a Region)> {
        if !arrange::are_far(from, to) {
            return vec![(from, to)];
        }
        let of = |there: &'a Region| self.regions.iter().filter(move |one| one.of == there.of);
        of(from).flat_map(|from| of(to).map(move |to| (from, to))).collect()
    }
}

fn set_link(act: Act, usual: Span) -> SetLink {
    let state = |state| SetLink { state: Some(state), ..SetLink::default() };
    match act {
        Act::Kill => state(LinkState::Down),
        Act::Cut => state(LinkState::Cut),
        Act::Slow => {
            let (delay, jitter, rate) = SLOW;
            SetLink {
                state: None,
                delay: Some(Span(usual.0 + delay)),
                jitter: Some(Span(jitter)),
                rate: Some(Rate(NonZeroU64::new(rate))),
            }
        }
        _ => SetLink {
            state: Some(LinkState::Up),
            delay: Some(usual),
            jitter: Some(Span::millis(0)),
            rate: Some(Rate(None)),
        },
    }
}
