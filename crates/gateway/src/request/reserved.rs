//! The resources that a request holds until its answer is sent: permits of the gateway's limits,
//! and its tenant's charge.

use http::HeaderMap;
use meridian_routing::Usage;

use crate::http::limits::Permit;
use crate::inputs::rate::Charge;

/// Permits and charge of one request.
pub(crate) struct Reserved {
    permits: Vec<Permit>,
    /// Present if its tenant has limits; corrected when dropped.
    charge: Option<Charge>,
}

impl Reserved {
    pub(crate) fn new(permits: Vec<Permit>, charge: Option<Charge>) -> Reserved {
        Reserved { permits, charge }
    }

    /// Writes the tenant's remaining limits into an answer's headers.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        if let Some(charge) = &self.charge {
            charge.write(headers);
        }
    }

    /// No engine worked on the request.
    pub(crate) fn unserved(&mut self) {
        if let Some(charge) = &mut self.charge {
            charge.nothing();
        }
    }

    /// Adds delivered pieces of the reply, when the engine's count will not come.
    pub(crate) fn seen(&mut self, pieces: u32) {
        if let Some(charge) = &mut self.charge {
            charge.seen(pieces);
        }
    }

    /// Corrects the charge to the engine's count if there is one, else to the delivered pieces.
    pub(crate) fn settle(&mut self, usage: Option<Usage>, pieces: u32) {
        let Some(mut charge) = self.charge.take() else { return };
        match usage {
            Some(usage) => charge.counted(usage),
            None => charge.seen(pieces),
        }
    }

    /// Returns the permits.
    pub(crate) fn release(&mut self) {
        self.permits.clear();
    }
}
