//! Places in a network that can be slow: a direction of a link, both of them, or a whole switch.

use super::pairs::Pair;
use crate::topology::{Direction, LinkId, LinkName, Topology};

/// A place that several pairs share. Narrow places come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// One direction of a link.
    One(LinkId),
    /// Both directions of a link, which is given by its direction out.
    Both(LinkId),
    /// An access switch.
    Access(u32),
    /// The core.
    Core,
}

impl Place {
    /// The place in words.
    #[must_use]
    pub fn text(self, topology: &Topology) -> String {
        match self {
            Place::One(link) => topology.link_text(link),
            Place::Both(link) => {
                let text = topology.link_text(link);
                format!("{} in both directions", text.trim_end_matches(" out"))
            }
            Place::Access(at) => format!("access switch {at}"),
            Place::Core => "the core".to_owned(),
        }
    }

    /// The places on the path of a pair.
    pub(super) fn of(topology: &Topology, pair: &Pair) -> Vec<Place> {
        let mut all = Vec::new();
        for link in &pair.links {
            all.extend([Place::One(*link), Place::Both(outwards(topology, *link))]);
            match topology.link(*link) {
                LinkName::Card(server, card, _) => {
                    let cards = &topology.servers()[server as usize].cards;
                    all.push(Place::Access(cards[card as usize].access));
                }
                LinkName::Uplink(..) => all.push(Place::Core),
                _ => {}
            }
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The links that are slow if the place is: for a switch, those of every card or access switch
    /// on it, as a topology has no switch with a rate of its own.
    pub(super) fn links(self, topology: &Topology) -> Vec<LinkId> {
        let all = (0..topology.link_count()).map(LinkId);
        match self {
            Place::One(link) => vec![link],
            Place::Both(link) => all.filter(|one| outwards(topology, *one) == link).collect(),
            Place::Access(at) => all
                .filter(|one| match topology.link(*one) {
                    LinkName::Card(server, card, _) => {
                        topology.servers()[server as usize].cards[card as usize].access == at
                    }
                    _ => false,
                })
                .collect(),
            Place::Core => {
                all.filter(|one| matches!(topology.link(*one), LinkName::Uplink(..))).collect()
            }
        }
    }

    /// Whether this place is a part of the other: a direction of a link.
    pub(super) fn is_part_of(self, other: Place, topology: &Topology) -> bool {
        matches!((self, other), (Place::One(a), Place::Both(b)) if outwards(topology, a) == b)
    }
}

/// The same link in its direction out.
fn outwards(topology: &Topology, link: LinkId) -> LinkId {
    match topology.link(link) {
        LinkName::Card(server, card, _) => topology.card(server, card, Direction::Out),
        LinkName::Uplink(access, _) => topology.uplink(access, Direction::Out),
        _ => link,
    }
}
