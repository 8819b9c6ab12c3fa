//! The resources that a request holds until its answer is out: permits of the gateway's limits, and the
//! charge to its tenant.

use http::HeaderMap;
use meridian_routing::Usage;

use crate::http::limits::Permit;
use crate::inputs::rate::Charge;

/// Permits and charge of one request.
pub(crate) struct Reserved {
    permits: Vec<Permit>,
    /// Where its tenant has limits; settled when it is dropped.
    charge: Option<Charge>,
}

impl Reserved {
    pub(crate) fn new(permits: Vec<Permit>, charge: Option<Charge>) -> Reserved {
        Reserved { permits, charge }
    }

    /// Says in an answer's headers what is left of its tenant's limits.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        if let Some(charge) = &self.charge {
            charge.write(headers);
        }
    }

    /// No engine worked on it.
    pub(crate) fn unserved(&mut self) {
        if let Some(charge) = &mut self.charge {
            charge.nothing();
        }
    }

    /// So many pieces of the reply passed, and the engine's count of them will not come.
    pub(crate) fn seen(&mut self, pieces: u32) {
        if let Some(charge) = &mut self.charge {
            charge.seen(pieces);
        }
    }

    /// The engine worked on it, and counted where there is a usage; else so many pieces passed.
    pub(crate) fn settle(&mut self, usage: Option<Usage>, pieces: u32) {
        let Some(mut charge) = self.charge.take() else { return };
        match usage {
            Some(usage) => charge.counted(usage),
            None => charge.seen(pieces),
        }
    }

    /// Gives the permits back.
    pub(crate) fn release(&mut self) {
        self.permits.clear();
    }
}
