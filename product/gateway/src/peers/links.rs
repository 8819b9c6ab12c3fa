//! The links to all followed gateways: those that the file lists, for as long as this gateway runs, and
//! those of its own region that it finds while it serves.
//!
//! A found one takes a free number. It gives the number back only when its records no longer count, so
//! the next gateway with that number begins without any.

use std::sync::Arc;

use meridian_base::PeerId;
use meridian_config::MOST_PEERS;
use meridian_protocol::peer::Identity;

use super::link::Link;
use crate::error::TlsError;
use crate::lock::RwLock;

pub(super) struct LinkTable {
    listed: Vec<Arc<Link>>,
    /// By number, after those that are listed.
    found: RwLock<Vec<Option<Arc<Link>>>>,
}

/// Why a gateway gets no link.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unlinked {
    #[error("it is followed at another address already")]
    Known,
    #[error(
        "{MOST_PEERS} gateways are followed already; list fewer in peers.gateways, or run fewer"
    )]
    Full,
    #[error(transparent)]
    Invalid(#[from] TlsError),
}

impl LinkTable {
    /// With places for found ones only if there may be some.
    pub(super) fn new(listed: Vec<Arc<Link>>, finds: bool) -> LinkTable {
        assert!(listed.len() <= MOST_PEERS, "{} peers have no bits", listed.len());
        let places = if finds { MOST_PEERS - listed.len() } else { 0 };
        LinkTable { listed, found: RwLock::new(vec![None; places]) }
    }

    /// The numbers that links have or may get.
    pub(super) fn places(&self) -> usize {
        self.listed.len() + self.found.read().len()
    }

    /// Those that the file lists, in its order.
    pub(super) fn listed(&self) -> &[Arc<Link>] {
        &self.listed
    }

    pub(super) fn all(&self) -> Vec<Arc<Link>> {
        self.listed.iter().chain(self.found.read().iter().flatten()).cloned().collect()
    }

    pub(super) fn named(&self, identity: &Identity) -> Option<Arc<Link>> {
        let listed = self.listed.iter().find(|link| link.identity == *identity).cloned();
        listed.or_else(|| {
            let found = self.found.read();
            found.iter().flatten().find(|link| link.identity == *identity).cloned()
        })
    }

    /// Adds a link to a gateway that was found.
    pub(super) fn add(
        &self,
        identity: &Identity,
        make: impl FnOnce(PeerId) -> Result<Link, TlsError>,
    ) -> Result<Arc<Link>, Unlinked> {
        let mut found = self.found.write();
        let mut known = self.listed.iter().chain(found.iter().flatten());
        if known.any(|link| link.identity == *identity) {
            return Err(Unlinked::Known);
        }
        let at = found.iter().position(Option::is_none).ok_or(Unlinked::Full)?;
        let id = u16::try_from(self.listed.len() + at).map_err(|_| Unlinked::Full)?;
        let link = Arc::new(make(PeerId(id))?);
        found[at] = Some(link.clone());
        Ok(link)
    }

    /// Removes a link that was added.
    pub(super) fn remove(&self, link: &Arc<Link>) {
        let mut found = self.found.write();
        let place =
            found.iter_mut().find(|place| place.as_ref().is_some_and(|l| Arc::ptr_eq(l, link)));
        *place.expect("only links that were added are removed, once") = None;
    }
}
