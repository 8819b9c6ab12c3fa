//! The emulated WAN's configuration and its admin API: requests and responses of a relay's
//! `/admin/*`.
//!
//! A *link* is one direction between two regions. A *route* is an address in one region that leads
//! to a target in another one, over the two links between them.

mod check;
mod rate;

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use meridian_config::{ConfigError, Format, file};
use meridian_protocol::units::{Size, Span};

pub use check::{DELAY_REMEDY, is_delay};
pub use rate::Rate;

/// The schema version that this program reads.
pub const VERSION: u32 = 1;

/// Round trips between the three regions of the documentation, in ms: Washington, Frankfurt and
/// Tokyo in the published network latency dashboards of IBM Cloud, medians of 2023 to 2025.
pub const KNOWN_RTT_MS: [(&str, &str, u64); 3] =
    [("us", "eu", 92), ("us", "asia", 167), ("eu", "asia", 230)];

/// Configuration of one relay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wan {
    /// Schema version: 1.
    pub version: u32,
    /// Address of the admin port. Port 0: any free one.
    #[serde(default = "any_port")]
    pub admin: SocketAddr,
    /// Links whose values differ from those of the known regions.
    #[serde(default)]
    pub links: Vec<LinkSpec>,
    /// The routes.
    pub routes: Vec<RouteSpec>,
    /// Slow start.
    #[serde(default)]
    pub window: Window,
    /// Most bytes buffered for one direction of one connection.
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
    /// The region that its bytes come from.
    pub from: String,
    /// The region that they go to.
    pub to: String,
    /// Delay of a byte; by default half the known round trip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Upper bound of the extra delay, drawn uniformly for each packet.
    #[serde(default = "no_time")]
    pub jitter: Span,
    /// Bytes a second, for all connections together.
    #[serde(default)]
    pub rate: Rate,
}

/// A route from one region to a program in another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteSpec {
    /// Its name; `FROM-TO` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The region of its clients.
    pub from: String,
    /// The region of its target.
    pub to: String,
    /// Address that clients connect to. Port 0: any free one.
    #[serde(default = "any_port")]
    pub listen: SocketAddr,
    /// Address of the program; connections are refused until it is set.
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

/// Slow start: most bytes of a connection in flight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Window {
    /// Initial window; it doubles each round trip.
    pub start: Size,
    /// Largest window.
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
        file::read(yaml, Format::Wan, Wan::problems)
    }

    /// The configuration as YAML, defaults written out.
    ///
    /// # Errors
    /// Never for a configuration that was read; otherwise the serializer's own error.
    pub fn print(&self) -> Result<String, ConfigError> {
        file::print(self)
    }

    /// Every link that a route uses or that is configured, with its delay: configured ones first,
    /// in their order.
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
    /// A link with the known delay, no jitter and no rate limit.
    #[must_use]
    pub fn new(from: &str, to: &str) -> LinkSpec {
        let (from, to) = (from.to_owned(), to.to_owned());
        LinkSpec { from, to, delay: None, jitter: no_time(), rate: Rate::default() }
    }
}

/// The delay of one direction between two regions, if known.
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
    /// The links.
    pub links: Vec<Link>,
    /// The routes.
    pub routes: Vec<Route>,
}

/// Whether a link works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkState {
    /// It works.
    #[default]
    Up,
    /// Nothing arrives and nothing is reported: connections hang, including new ones.
    Cut,
    /// Connections over it are reset, including new ones.
    Down,
}

/// One link, its settings, and its traffic since the start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// The region that its bytes come from.
    pub from: String,
    /// The region that they go to.
    pub to: String,
    /// Whether it works.
    pub state: LinkState,
    /// Delay of a byte.
    pub delay: Span,
    /// Upper bound of the extra delay.
    pub jitter: Span,
    /// Bytes a second.
    pub rate: Rate,
    /// Connections over it now, whichever side opened them.
    pub open: u64,
    /// Connections opened in this direction.
    pub opened: u64,
    /// Of those, refused: nothing listened on the route's target.
    pub refused: u64,
    /// Connections over it that ended with a reset.
    pub resets: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes delivered.
    pub bytes_out: u64,
    /// Bytes in transit or buffered.
    pub held: u64,
    /// Bytes received and never delivered: their connection was reset.
    pub dropped: u64,
}

/// One route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// Its name.
    pub name: String,
    /// The region of its clients.
    pub from: String,
    /// The region of its target.
    pub to: String,
    /// Address that clients connect to.
    pub listen: SocketAddr,
    /// Address of the program.
    pub target: Option<SocketAddr>,
    /// Connections through it now.
    pub open: u64,
}

/// `POST /admin/links/FROM/TO`: absent fields stay unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SetLink {
    /// Whether it works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<LinkState>,
    /// Delay of a byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// Upper bound of the extra delay.
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
    /// Target of new connections.
    pub target: SocketAddr,
}

#[cfg(test)]
mod tests;
