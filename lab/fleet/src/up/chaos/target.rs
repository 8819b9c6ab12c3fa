//! Which gateway a client asks: one of a list, or one that a name leads to.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use super::super::world::World;
use super::super::{arrange, names};
use crate::{Error, Resolver, Result};

/// How long a client avoids a gateway of its list that failed it.
const AWAY: Duration = Duration::from_secs(4);

/// The gateways of a client.
pub(super) enum Target {
    /// Known ones, nearest first.
    Listed {
        /// Their addresses.
        gateways: Vec<String>,
        /// The one that the last attempt went to.
        last: usize,
        /// Where to begin instead of the nearest one, and until when.
        away: Option<(usize, Instant)>,
    },
    /// Those of a name, which is resolved again when its TTL is over.
    Named {
        /// The name.
        resolver: Resolver,
        /// The public addresses, and where each of them is reached.
        gateways: Vec<(Ipv4Addr, String)>,
    },
}

impl Target {
    /// For clients of the `at`th region: all gateways, or those of the fleet's name.
    pub(super) fn of(world: &World, at: usize, by_name: bool) -> Result<Target> {
        if !by_name {
            let gateways = arrange::addresses(&world.regions, world.distance.as_ref(), at);
            return Ok(Target::Listed { gateways, last: 0, away: None });
        }
        let gateways = arrange::behind_the_name(&world.regions, world.distance.as_ref(), at);
        let servers = world.planes.as_ref().map(|planes| planes.name_servers(at));
        let servers = servers.filter(|servers| !servers.is_empty());
        let missing = || Error::Missing {
            what: "a name server of the fleet's zone".into(),
            remedy: "use several control planes".into(),
        };
        let servers = servers.ok_or_else(missing)?;
        let resolver = Resolver::new(names::ZONE, servers, names::client(at));
        Ok(Target::Named { resolver: resolver.ok_or_else(missing)?, gateways })
    }

    /// The gateway for the next attempt, after so many that failed. None if the name leads to none now.
    pub(super) async fn next(&mut self, failed: u32) -> Option<&str> {
        match self {
            Target::Listed { gateways, last, away } => {
                let now = Instant::now();
                let first = away.filter(|(_, until)| *until > now).map_or(0, |(at, _)| at);
                *last = (first + failed as usize) % gateways.len();
                Some(&gateways[*last])
            }
            Target::Named { resolver, gateways } => {
                let address = *resolver.addresses().await.first()?;
                let gateway = gateways.iter().find(|(public, _)| *public == address);
                gateway.map(|(_, url)| url.as_str())
            }
        }
    }

    /// The last attempt's gateway did not answer. A name says itself when to leave one.
    pub(super) fn failed(&mut self) {
        if let Target::Listed { gateways, last, away } = self {
            *away = Some(((*last + 1) % gateways.len(), Instant::now() + AWAY));
        }
    }
}
