//! Bytes on links: the load of several concurrent transfers, and the link that is full first.

use crate::topology::{LinkId, Topology};

/// Bytes on each link that is used.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loads(Vec<(LinkId, f64)>);

impl Loads {
    /// Adds bytes to every link of a path.
    pub fn add(&mut self, links: &[LinkId], bytes: f64) {
        for link in links {
            match self.0.binary_search_by_key(link, |(id, _)| *id) {
                Ok(at) => self.0[at].1 += bytes,
                Err(at) => self.0.insert(at, (*link, bytes)),
            }
        }
    }

    /// Adds `factor` times another's.
    pub fn merge(&mut self, other: &Loads, factor: f64) {
        for (link, bytes) in &other.0 {
            self.add(&[*link], bytes * factor);
        }
    }

    /// Bytes on a link.
    #[must_use]
    pub fn on(&self, link: LinkId) -> f64 {
        self.0.binary_search_by_key(&link, |(id, _)| *id).map_or(0.0, |at| self.0[at].1)
    }

    /// Each link with its bytes, by link.
    pub fn iter(&self) -> impl Iterator<Item = (LinkId, f64)> + '_ {
        self.0.iter().copied()
    }

    /// The link that finishes last, and when, in seconds.
    #[must_use]
    pub fn slowest(&self, topology: &Topology) -> Option<(LinkId, f64)> {
        let seconds = |(link, bytes): &(LinkId, f64)| (*link, bytes / topology.usable(*link));
        self.0.iter().map(seconds).max_by(|a, b| a.1.total_cmp(&b.1))
    }
}
