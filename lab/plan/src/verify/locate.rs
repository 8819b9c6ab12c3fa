//! Finds the place that makes pairs slow, from the pairs that share it.
//!
//! A pair is as fast as the slowest place on its path. So each pair proves that every place on its
//! path carries at least what it carried, and only places that no pair has proven to be clearly
//! faster can be the reason why a pair is slow. Of these, the place that explains most slow pairs is
//! taken first, until all are explained: one slow switch is likelier than that all of its cards are
//! slow. Places that explain the same pairs can't be told apart, and all of them are reported.

use std::collections::BTreeMap;

use meridian_base::median;

use super::pairs::{Pair, Port};
use super::place::Place;
use crate::topology::{LinkId, Topology};

/// Two measurements of one place differ by up to this factor: each is up to a tenth above or below.
const NOISE: f64 = 1.25;

/// A slow place.
#[derive(Clone, Debug, PartialEq)]
pub struct Slow {
    /// The places that can be the reason: one, or several that no measured pair tells apart. Empty if
    /// none can be, as each is faster in other pairs: then something on the path of these pairs is,
    /// which the topology does not have.
    pub places: Vec<Place>,
    /// The slow pairs that it explains.
    pub pairs: Vec<(Port, Port)>,
    /// The rate that the topology gives them, bytes a second.
    pub expected: f64,
    /// The median of their measured rates, bytes a second.
    pub measured: f64,
}

impl Slow {
    /// Measured over expected.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.measured / self.expected
    }

    /// The place in words.
    #[must_use]
    pub fn text(&self, topology: &Topology) -> String {
        match &self.places[..] {
            [] => {
                let name = |(from, to): &(Port, Port)| {
                    format!("{} to {}", from.text(topology), to.text(topology))
                };
                let pairs: Vec<String> = self.pairs.iter().map(name).collect();
                format!("only {}; each of its links is faster in other pairs", pairs.join(", "))
            }
            places => {
                let all: Vec<String> = places.iter().map(|one| one.text(topology)).collect();
                all.join(", or ")
            }
        }
    }
}

/// The slow places, those that explain most pairs first. Pairs whose limit was a processor count
/// only as a proof of what their places carry at least.
#[must_use]
pub fn slow(topology: &Topology, pairs: &[Pair]) -> Vec<Slow> {
    let mut proven: BTreeMap<Place, f64> = BTreeMap::new();
    for pair in pairs {
        for place in Place::of(topology, pair) {
            let most = proven.entry(place).or_default();
            *most = most.max(pair.measured.goodput);
        }
    }
    let candidates = |pair: &Pair| -> Vec<Place> {
        let most = pair.measured.goodput * NOISE;
        let mut places = Place::of(topology, pair);
        places.retain(|place| proven[place] <= most);
        places
    };
    let mut left: Vec<(&Pair, Vec<Place>)> =
        pairs.iter().filter(|pair| pair.is_slow()).map(|pair| (pair, candidates(pair))).collect();
    let mut found = Vec::new();
    while !left.is_empty() {
        let mut explained: BTreeMap<Place, Vec<usize>> = BTreeMap::new();
        for (at, (_, places)) in left.iter().enumerate() {
            places.iter().for_each(|place| explained.entry(*place).or_default().push(at));
        }
        let most = explained.values().map(Vec::len).max().unwrap_or(0);
        let best = explained.values().find(|own| own.len() == most).cloned();
        let taken = best.unwrap_or_else(|| (0..left.len()).collect());
        let same: Vec<Place> =
            explained.iter().filter(|(_, own)| **own == taken).map(|(place, _)| *place).collect();
        let narrow = |place: &&Place| !same.iter().any(|one| one.is_part_of(**place, topology));
        let places = same.iter().filter(narrow).copied().collect();
        let own: Vec<&Pair> = taken.iter().map(|at| left[*at].0).collect();
        found.push(Slow {
            places,
            pairs: own.iter().map(|pair| (pair.measured.from, pair.measured.to)).collect(),
            expected: own.iter().map(|pair| pair.expected).fold(0.0, f64::max),
            measured: median(&own.iter().map(|pair| pair.measured.goodput).collect::<Vec<_>>())
                .expect("a place has pairs"),
        });
        let mut at = 0;
        left.retain(|_| {
            at += 1;
            !taken.contains(&(at - 1))
        });
    }
    found
}

/// A link that no pair could fill, as the cards at the other end are slower.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Untested {
    /// The link.
    pub link: LinkId,
    /// The most that a pair should carry over it, bytes a second.
    pub tested: f64,
    /// Its usable rate.
    pub usable: f64,
}

/// Links of measured pairs that were tested up to a part of their rate only.
#[must_use]
pub fn untested(topology: &Topology, pairs: &[Pair]) -> Vec<Untested> {
    let mut most: BTreeMap<LinkId, f64> = BTreeMap::new();
    for pair in pairs {
        for link in &pair.links {
            let tested = most.entry(*link).or_default();
            *tested = tested.max(pair.expected);
        }
    }
    let all = most.into_iter().map(|(link, tested)| {
        let usable = topology.usable(link);
        Untested { link, tested, usable }
    });
    all.filter(|one| one.tested < one.usable * super::SLOW).collect()
}
