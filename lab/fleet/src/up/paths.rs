//! The paths of KV between the engines of a region, through a relay that can be cut.
//!
//! Both engines of a pair stay healthy while the path between them is cut.

use std::net::SocketAddr;

use meridian_protocol::admin::Role;
use meridian_protocol::units::Span;
use meridian_wan::config::{LinkSpec, Rate, SetLink};

use super::Options;
use crate::{Distance, Fleet, Process, Result};

/// The relay's names of the two sides.
const ENGINES: &str = "engines";
const KV: &str = "kv";

/// The relay before the side channels of prefill engines.
pub(super) struct Paths {
    pub(super) relay: Distance,
}

impl Paths {
    /// Starts the relay, if the run has one.
    pub(super) async fn start(fleet: &Fleet, options: &Options) -> Result<Option<Paths>> {
        if !options.relays_kv || options.regions.len() > 1 {
            return Ok(None);
        }
        let prefills =
            options.roles(0).into_iter().enumerate().filter(|(_, r)| *r == Role::Prefill);
        let route = |(n, _)| (options.replica_name(0, n), ENGINES.to_owned(), KV.to_owned());
        let routes: Vec<_> = prefills.map(route).collect();
        let link = |from: &str, to: &str| LinkSpec {
            from: from.to_owned(),
            to: to.to_owned(),
            delay: Some(Span::millis(0)),
            jitter: Span::millis(0),
            rate: Rate(None),
        };
        let links = vec![link(ENGINES, KV), link(KV, ENGINES)];
        Ok(Some(Paths { relay: fleet.distance(&routes, links).await? }))
    }

    /// The address by which other engines reach this engine's side channel.
    pub(super) fn announced(&self, name: &str) -> Option<SocketAddr> {
        self.relay.door(name)
    }

    /// Leads an engine's path to the side channel that it has now.
    pub(super) async fn lead(&self, name: &str, engine: &Process) -> Result<()> {
        match engine.said(1).parse() {
            Ok(side_channel) if self.announced(name).is_some() => {
                self.relay.leads_to(name, side_channel).await
            }
            _ => Ok(()),
        }
    }

    /// Changes all paths, in both directions.
    pub(super) async fn set(&self, set: SetLink) -> Result<()> {
        self.relay.set_way(ENGINES, KV, set).await?;
        self.relay.set_way(KV, ENGINES, set).await
    }
}
