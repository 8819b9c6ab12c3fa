//! Pairs of cards: which are measured, the links between them, and the expected rate.

use super::{BUSY, SLOW};
use crate::problem::{Problem, one_of};
use crate::topology::{Direction, LinkId, Topology};

/// A card of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    /// The server's index.
    pub server: u32,
    /// The card's index on the server.
    pub card: u32,
}

impl Port {
    /// In words.
    #[must_use]
    pub fn text(self, topology: &Topology) -> String {
        let server = &topology.servers()[self.server as usize];
        match server.cards.len() {
            1 => server.name.clone(),
            _ => format!("{}/{}", server.name, self.card),
        }
    }
}

/// The measurement of a pair: data from the first card to the second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// The sender.
    pub from: Port,
    /// The receiver.
    pub to: Port,
    /// Bytes a second that arrived.
    pub goodput: f64,
    /// Median round trip of a small message, in seconds.
    pub rtt: f64,
    /// The largest share of the time that the two ends of a stream computed or waited for a
    /// processor, 0 to 1.
    pub busy: f64,
}

/// A measured pair beside the topology.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The measurement.
    pub measured: Measured,
    /// The links of its path.
    pub links: Vec<LinkId>,
    /// The usable rate of the slowest of them, bytes a second.
    pub expected: f64,
}

impl Pair {
    /// Measured over expected.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.measured.goodput / self.expected
    }

    /// Whether it carried less than it should.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.share() < SLOW
    }

    /// Whether a processor was the limit, so that it says nothing about links.
    #[must_use]
    pub fn is_cpu_bound(&self) -> bool {
        self.is_short() && self.measured.busy >= BUSY
    }

    /// Whether a link, and not a processor, made it slow.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        self.is_short() && !self.is_cpu_bound()
    }
}

/// The card of a name: `server`, or `server/card`. Without a card it is card 0.
///
/// # Errors
///
/// If the topology has no such server or card.
pub fn port(topology: &Topology, name: &str) -> Result<Port, Problem> {
    let known: Vec<&str> = topology.servers().iter().map(|one| one.name.as_str()).collect();
    let (server, card) = match name.split_once('/') {
        Some((server, card)) => (server, Some(card)),
        None => (name, None),
    };
    let Some(at) = known.iter().position(|one| *one == server) else {
        let remedy = format!("use a server of the topology, {}", one_of(server, &known));
        return Err(Problem::new("--at", name, remedy));
    };
    let count = topology.servers()[at].cards.len() as u32;
    let card = card.map_or(Some(0), |card| card.parse().ok()).filter(|card| *card < count);
    let Some(card) = card else {
        let remedy = format!("{server} has {count} cards, numbered from 0; use {server}/0");
        return Err(Problem::new("--at", name, remedy));
    };
    Ok(Port { server: at as u32, card })
}

/// The links from one card to another; `None` if the topology joins them by no switch, or they are
/// of one server.
pub(super) fn path(topology: &Topology, from: Port, to: Port) -> Option<Vec<LinkId>> {
    if from.server == to.server {
        return None;
    }
    let access =
        |port: Port| topology.servers()[port.server as usize].cards[port.card as usize].access;
    let (up, down) = (access(from), access(to));
    let mut links = vec![topology.card(from.server, from.card, Direction::Out)];
    if up != down {
        topology.core()?;
        links.extend([topology.uplink(up, Direction::Out), topology.uplink(down, Direction::In)]);
    }
    links.push(topology.card(to.server, to.card, Direction::In));
    Some(links)
}

/// The pairs to measure, one after the other: each server with its next `partners` servers, or with
/// all, each card with the card in the same place of the other server.
#[must_use]
pub fn pairs(topology: &Topology, ports: &[Port], partners: Option<usize>) -> Vec<(Port, Port)> {
    let mut servers: Vec<u32> = ports.iter().map(|port| port.server).collect();
    servers.sort_unstable();
    servers.dedup();
    let of = |server: u32| -> Vec<Port> {
        let mut own: Vec<Port> = ports.iter().copied().filter(|one| one.server == server).collect();
        own.sort_unstable();
        own
    };
    let count = servers.len();
    let most = count.saturating_sub(1);
    let mut all = Vec::new();
    for step in 1..=partners.unwrap_or(most).min(most) {
        for at in 0..count {
            let (from, to) = (of(servers[at]), of(servers[(at + step) % count]));
            for nth in 0..from.len().max(to.len()) {
                let (from, to) = (from[nth % from.len()], to[nth % to.len()]);
                if path(topology, from, to).is_some() {
                    all.push((from, to));
                }
            }
        }
    }
    all
}

/// The measurements beside the topology; without those that it has no path for.
#[must_use]
pub fn compared(topology: &Topology, measured: &[Measured]) -> Vec<Pair> {
    let pair = |one: &Measured| {
        let links = path(topology, one.from, one.to)?;
        let usable = links.iter().map(|link| topology.usable(*link));
        let expected = usable.fold(f64::INFINITY, f64::min);
        Some(Pair { measured: *one, links, expected })
    };
    measured.iter().filter_map(pair).collect()
}
