//! What a request holds until its answer is out: its places in the gateway's limits, and what its
//! tenant was charged.

use http::HeaderMap;
use meridian_routing::Usage;

use crate::http::limits::Permit;
use crate::inputs::rate::Charge;

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

    /// Gives its places back.
    pub(crate) fn release(&mut self) {
        self.permits.clear();
    }
}
