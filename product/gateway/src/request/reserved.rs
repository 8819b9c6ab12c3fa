//! The resources that a request holds until its answer is sent: permits of the gateway's limits,
//! and the charges of its tenant and its model.

use http::HeaderMap;
use meridian_routing::Usage;

use crate::http::limits::Permit;
use crate::inputs::models::Held;
use crate::inputs::rate::Charge;
use crate::refusal::Refusal;

/// Permits and charges of one request.
pub(crate) struct Reserved {
    permits: Vec<Permit>,
    /// Present if its tenant has limits; corrected when dropped.
    charge: Option<Charge>,
    /// Its part of its model's limits.
    held: Held,
}

impl Reserved {
    pub(crate) fn new(permits: Vec<Permit>, held: Held) -> Reserved {
        assert!(!permits.is_empty(), "a request has no place in limits.requests");
        Reserved { permits, charge: None, held }
    }

    /// Adds its tenant's charge. A request that its tenant's limits refuse costs its model nothing.
    pub(crate) fn charge(&mut self, charge: Result<Charge, Refusal>) -> Result<(), Refusal> {
        assert!(self.charge.is_none(), "a request is charged to its tenant once");
        self.charge = Some(charge.inspect_err(|_| self.unserved())?);
        Ok(())
    }

    /// Replaces the request's part of its model's limits by that of another model. `worked`: an
    /// engine of the first one may have worked on it.
    pub(crate) fn hold_instead(&mut self, held: Held, worked: bool) {
        let mut before = std::mem::replace(&mut self.held, held);
        if let Some(charge) = before.charge.as_mut().filter(|_| !worked) {
            charge.nothing();
        }
    }

    /// Whether a charge may still be corrected.
    pub(crate) fn is_charged(&self) -> bool {
        self.charge.is_some() || self.held.charge.is_some()
    }

    fn charges(&mut self) -> impl Iterator<Item = &mut Charge> {
        self.charge.iter_mut().chain(&mut self.held.charge)
    }

    /// Writes the tenant's remaining limits into an answer's headers.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        if let Some(charge) = &self.charge {
            charge.write(headers);
        }
    }

    /// No engine worked on the request.
    pub(crate) fn unserved(&mut self) {
        self.charges().for_each(Charge::nothing);
    }

    /// Adds delivered pieces of the reply, when the engine's count will not come.
    pub(crate) fn seen(&mut self, pieces: u32) {
        self.charges().for_each(|charge| charge.seen(pieces));
    }

    /// Corrects the charges to the engine's count if there is one, else to the delivered pieces.
    pub(crate) fn settle(&mut self, usage: Option<Usage>, pieces: u32) {
        for mut charge in self.charge.take().into_iter().chain(self.held.charge.take()) {
            match usage {
                Some(usage) => charge.counted(usage),
                None => charge.seen(pieces),
            }
        }
    }

    /// Returns the permits.
    pub(crate) fn release(&mut self) {
        self.permits.clear();
        self.held.permit = None;
    }
}
