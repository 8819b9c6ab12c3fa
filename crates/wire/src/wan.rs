//! The emulated WAN's configuration and its admin API: what `/admin/*` of a relay answers and takes.
//!
//! A *link* is one direction between two regions. A *route* is a door: who connects to its address
//! from one region reaches its target in another one, over the two links between them.

mod check;
mod rate;

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, Size, Span, file};

pub use check::{DELAY_REMEDY, is_delay};
pub use rate::Rate;

/// The schema version that this program reads.
pub const VERSION: u32 = 1;

/// Round trips between the three regions of the documentation, in ms: Washington, Frankfurt and
/// Tokyo in the published network latency dashboards of IBM Cloud, medians of 2023 to 2025.
pub const KNOWN_RTT_MS: [(&str, &str, u64); 3] =
    [("us", "eu", 92), ("us", "asia", 167), ("eu", "asia", 230)];

/// One relay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wan {
    /// Schema version: 1.
    pub version: u32,
    /// Where the admin port is. Port 0: any free one.
    #[serde(default = "any_port")]
    pub admin: SocketAddr,
    /// Directions whose figures are not those of the regions that are known.
    #[serde(default)]
    pub links: Vec<LinkSpec>,
    /// The doors.
    pub routes: Vec<RouteSpec>,
    /// Slow start.
    #[serde(default)]
    pub window: Window,
    /// The most bytes held for one direction of one connection.
    #[serde(default = "default_buffer")]
    pub buffer: Size,
    /// The most connections at once; more are reset.
    #[serde(default = "default_connections")]
    pub connections: usize,
    /// Seed of the jitter.
    #[serde(default)]
    pub seed: u64,
}

/// One direction between two regions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// Where its bytes come from.
    pub from: String,
    /// Where they go.
    pub to: String,
    /// How long a byte travels; half the known round trip where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Up to so much longer, drawn evenly for each packet.
    #[serde(default = "no_time")]
    pub jitter: Span,
    /// Bytes a second, of all connections together.
    #[serde(default)]
    pub rate: Rate,
}

/// A door from one region to a program in another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteSpec {
    /// Its name; `FROM-TO` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The region of those who connect.
    pub from: String,
    /// The region of whom they reach.
    pub to: String,
    /// Where they connect. Port 0: any free one.
    #[serde(default = "any_port")]
    pub listen: SocketAddr,
    /// Whom they reach; connections are refused until it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<SocketAddr>,
}

impl RouteSpec {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("{}-{}", self.from, self.to))
    }
}

/// Slow start: what a connection may have on its way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Window {
    /// At first; it doubles each round trip.
    pub start: Size,
    /// At most.
    pub most: Size,
}

impl Default for Window {
    fn default() -> Window {
        Window { start: Size(14_600), most: Size::mib(4) }
    }
}

fn any_port() -> SocketAddr {
    (std::net::Ipv4Addr::LOCALHOST, 0).into()
}

fn default_buffer() -> Size {
    Size::mib(4)
}

fn default_connections() -> usize {
    1024
}

fn no_time() -> Span {
    Span::millis(0)
}

impl Wan {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn read(yaml: &str) -> Result<Wan, ConfigError> {
        file::read(yaml, Wan::problems)
    }

    /// The configuration as YAML, defaults written out.
    ///
    /// # Errors
    /// Never for a configuration that was read; the serializer's own otherwise.
    pub fn print(&self) -> Result<String, ConfigError> {
        file::print(self)
    }

    /// Every direction that a route uses or that is configured, with its delay: configured ones
    /// first, in their order.
    #[must_use]
    pub fn all_links(&self) -> Vec<LinkSpec> {
        let mut all = self.links.clone();
        for route in &self.routes {
            for (from, to) in [(&route.from, &route.to), (&route.to, &route.from)] {
                if !all.iter().any(|link| link.from == *from && link.to == *to) {
                    all.push(LinkSpec::new(from, to));
                }
            }
        }
        for link in &mut all {
            link.delay = link.delay.or_else(|| known_delay(&link.from, &link.to));
        }
        all
    }
}

impl LinkSpec {
    /// A direction with the known delay, no jitter and no rate.
    #[must_use]
    pub fn new(from: &str, to: &str) -> LinkSpec {
        let (from, to) = (from.to_owned(), to.to_owned());
        LinkSpec { from, to, delay: None, jitter: no_time(), rate: Rate::default() }
    }
}

/// The delay of one direction between two regions, where it is known.
#[must_use]
pub fn known_delay(from: &str, to: &str) -> Option<Span> {
    let is_it = |a: &str, b: &str| (a, b) == (from, to) || (b, a) == (from, to);
    let (.., ms) = KNOWN_RTT_MS.iter().find(|(a, b, _)| is_it(a, b))?;
    Some(Span(std::time::Duration::from_millis(*ms) / 2))
}

/// `GET /admin/wan`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Seconds since the relay started.
    pub uptime_s: f64,
    /// The directions.
    pub links: Vec<Link>,
    /// The doors.
    pub routes: Vec<Route>,
}

/// Whether a link works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkState {
    /// It works.
    #[default]
    Up,
    /// Nothing arrives, and nobody is told: connections hang, new ones too.
    Cut,
    /// Connections over it are reset, new ones too.
    Down,
}

/// One direction, its figures, and what passed since the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Where its bytes come from.
    pub from: String,
    /// Where they go.
    pub to: String,
    /// Whether it works.
    pub state: LinkState,
    /// How long a byte travels.
    pub delay: Span,
    /// Up to so much longer.
    pub jitter: Span,
    /// Bytes a second.
    pub rate: Rate,
    /// Connections over it now, whichever side opened them.
    pub open: u64,
    /// Connections opened in this direction.
    pub opened: u64,
    /// Of those, refused: nobody listened behind the route.
    pub refused: u64,
    /// Connections over it that ended with a reset.
    pub resets: u64,
    /// Bytes taken in.
    pub bytes_in: u64,
    /// Bytes given out.
    pub bytes_out: u64,
    /// Bytes on their way or waiting.
    pub held: u64,
    /// Bytes taken in and never given out: their connection was reset.
    pub dropped: u64,
}

/// One door.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// Its name.
    pub name: String,
    /// The region of those who connect.
    pub from: String,
    /// The region of whom they reach.
    pub to: String,
    /// Where they connect.
    pub listen: SocketAddr,
    /// Whom they reach.
    pub target: Option<SocketAddr>,
    /// Connections through it now.
    pub open: u64,
}

/// `POST /admin/links/FROM/TO`: what is absent stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SetLink {
    /// Whether it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<LinkState>,
    /// How long a byte travels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Up to so much longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Span>,
    /// Bytes a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

/// `POST /admin/routes/NAME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetRoute {
    /// Whom new connections reach.
    pub target: SocketAddr,
}

#[cfg(test)]
mod tests;
