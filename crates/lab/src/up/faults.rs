//! Breaking things on purpose, and mending them: real processes are killed, real links reset.

use std::fmt;

use serde::{Deserialize, Serialize};

use meridian_wire::wan::LinkState;

use super::Options;
use super::region::Region;
use super::world::World;
use crate::{Error, Result};

/// What is to happen to something of the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Order {
    /// Break or mend.
    pub(super) act: Act,
    /// What of.
    pub(super) what: What,
    /// `us-engine-0`, a region for `gateway` and `region`, `us/eu` for `link`.
    pub(super) name: String,
}

/// Break or mend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Act {
    /// Kill it, with SIGKILL; of a link: reset what is open on it.
    Kill,
    /// Start it again, where it was.
    Revive,
}

/// The kinds of things that break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum What {
    /// One replica.
    Replica,
    /// A region's gateway.
    Gateway,
    /// A region's replicas and gateway.
    Region,
    /// The link between two regions, both ways.
    Link,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let act = match self.act {
            Act::Kill => "killed",
            Act::Revive => "revived",
        };
        let what = match self.what {
            What::Replica => "replica",
            What::Gateway => "gateway of",
            What::Region => "region",
            What::Link => "link",
        };
        write!(f, "{act} {what} {}", self.name)
    }
}

impl World {
    /// Carries an order out. Killing the dead and reviving the living change nothing.
    pub(super) async fn obey(&mut self, options: &Options, order: &Order) -> Result<()> {
        match order.what {
            What::Link => return self.link(order).await,
            What::Replica => {
                let (region, replica) = self.replica(&order.name)?;
                self.replica_act(options, region, replica, order.act).await?;
            }
            What::Gateway => {
                let region = self.region(&order.name)?;
                self.gateway_act(region, order.act).await?;
            }
            What::Region => {
                let region = self.region(&order.name)?;
                for replica in 0..self.regions[region].replicas.len() {
                    self.replica_act(options, region, replica, order.act).await?;
                }
                self.gateway_act(region, order.act).await?;
            }
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
        let seed = region as u32 * options.replicas + nth as u32;
        let (fleet, maker) = (&self.fleet, &self.maker);
        let replica = &mut self.regions[region].replicas[nth];
        match (act, &mut replica.process) {
            (Act::Kill, Some(process)) => {
                process.kill().await?;
                replica.process = None;
            }
            (Act::Revive, None) => {
                let port = replica.url.rsplit(':').next().and_then(|port| port.parse().ok());
                let port = port.unwrap_or(0);
                let started = maker.replica(fleet, options, &replica.name, seed, port).await?;
                replica.process = Some(started);
            }
            _ => {}
        }
        Ok(())
    }

    async fn gateway_act(&mut self, region: usize, act: Act) -> Result<()> {
        let there: &mut Region = &mut self.regions[region];
        match (act, &mut there.gateway) {
            (Act::Kill, Some(gateway)) => {
                gateway.process.kill().await?;
                there.gateway = None;
            }
            (Act::Revive, None) => {
                there.start_gateway(&self.fleet).await?;
                self.set_routes().await?;
            }
            _ => {}
        }
        Ok(())
    }

    async fn link(&mut self, order: &Order) -> Result<()> {
        let pair = order.name.split_once('/');
        let (Some(distance), Some((a, b))) = (&self.distance, pair) else {
            return Err(unknown(&order.name, ["us/eu"]));
        };
        self.region(a)?;
        self.region(b)?;
        let state = match order.act {
            Act::Kill => LinkState::Down,
            Act::Revive => LinkState::Up,
        };
        distance.set_link(a, b, state).await
    }
}

fn unknown<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
    let known: Vec<&str> = known.into_iter().collect();
    let remedy = format!("is not there; use one of {}", known.join(", "));
    Error::Setting { field: "name", value: name.to_owned(), remedy }
}
