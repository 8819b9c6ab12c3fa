//! Places: numbers for the replicas' locations, and masks of those that a request's residency rules
//! permit.
//!
//! Rules compare names and labels, which is too slow for every candidate of every decision. So each
//! place that has a replica has a number, and a request's rules become a mask over these numbers
//! and one over the peers ([`Permitted`]). A peer is judged by the places in its newest digest, so
//! for replicas that it adopted from another region, their own place counts.
//!
//! A number is released when the last replica of its place leaves, and may then be reused for
//! another place. A mask is therefore valid only in the generation it was made in. Every change of
//! numbers, of the known regions, or of the peers' places starts a new generation, and a request
//! with an older mask gets a new one at its next decision. That costs one comparison per decision.
//! Preventing reuse while any request has a mask would need a count of masks for every number, and
//! one long stream would keep a number for hours.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::peer::Peers;
use crate::request::Request;
use meridian_base::residency::{Atlas, MOST_PLACES, Place, Residence};

/// The number of a place when all are taken: no rule's mask has this bit.
const BEYOND: u8 = MOST_PLACES as u8;

/// The places that a request's rules permit, as of one generation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permitted {
    generation: u64,
    /// The numbered places whose replicas may serve it.
    pub(crate) places: u64,
    /// The peers that have a usable replica which may serve it.
    pub(crate) peers: u64,
    /// Whether the fleet has a permitted place, even if no replica there takes requests now.
    pub(crate) somewhere: bool,
}

impl Permitted {
    /// For a request that just arrived: everything if it has no rules, otherwise nothing until the
    /// first refresh.
    pub(crate) fn at_first(request: &Request) -> Permitted {
        let all = if request.residence.is_free() { u64::MAX } else { 0 };
        let places = if request.here { all } else { 0 };
        Permitted { generation: 0, places, peers: all, somewhere: all != 0 }
    }
}

/// The table of numbers.
#[derive(Debug)]
pub(crate) struct Places {
    /// By number: the place, and how many replicas are there. A row with none is free.
    rows: Vec<(Arc<Place>, u32)>,
    atlas: Arc<Atlas>,
    generation: u64,
}

impl Places {
    pub(crate) fn new() -> Places {
        Places { rows: Vec::new(), atlas: Arc::default(), generation: 1 }
    }

    /// Invalidates earlier masks.
    pub(crate) fn changed(&mut self) {
        self.generation += 1;
    }

    /// Grows with each change that invalidates masks.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Replaces the known regions.
    pub(crate) fn known(&mut self, atlas: Arc<Atlas>) {
        self.atlas = atlas;
        self.changed();
    }

    /// Adds a replica at a place; returns the place's number.
    pub(crate) fn enter(&mut self, place: &Arc<Place>) -> u8 {
        let known = self.rows.iter().position(|(known, count)| *count > 0 && known == place);
        if let Some(at) = known {
            self.rows[at].1 += 1;
            return at as u8;
        }
        let free = self.rows.iter().position(|(_, count)| *count == 0);
        let at = free.unwrap_or(self.rows.len());
        if at >= MOST_PLACES {
            return BEYOND;
        }
        if at == self.rows.len() {
            self.rows.push((place.clone(), 0));
        }
        self.rows[at] = (place.clone(), 1);
        self.changed();
        at as u8
    }

    /// Removes a replica with this number; true if the number is now free.
    pub(crate) fn leave(&mut self, number: u8) -> bool {
        let Some((_, count)) = self.rows.get_mut(usize::from(number)) else { return false };
        assert!(*count > 0, "a place is left by replicas that entered it");
        *count -= 1;
        let is_free = *count == 0;
        if is_free {
            self.changed();
        }
        is_free
    }

    /// Whether rules can permit the place with this number.
    pub(crate) fn is_numbered(number: u8) -> bool {
        number < BEYOND
    }

    /// Whether replicas with this number may serve a request restricted to `places`.
    #[inline]
    pub(crate) fn within(number: u8, places: u64) -> bool {
        places & 1 << (number % 64) != 0
    }

    /// The places in a mask of numbers, in order.
    pub(crate) fn named(&self, numbers: u64) -> Vec<Arc<Place>> {
        let rows = self.rows.iter().enumerate();
        let named = rows.filter(|(at, _)| numbers & 1 << at != 0);
        named.map(|(_, (place, _))| place.clone()).collect()
    }

    /// Whether rules permit one of these places.
    pub(crate) fn permit_one<'a>(
        &self,
        residence: &Residence,
        places: impl IntoIterator<Item = &'a Arc<Place>>,
    ) -> bool {
        places.into_iter().any(|place| residence.permits(place, self.labels()))
    }

    /// Whether rules forbid one of these places.
    pub(crate) fn forbid_one(&self, residence: &Residence, places: &[Arc<Place>]) -> bool {
        places.iter().any(|place| !residence.permits(place, self.labels()))
    }

    /// Updates a request's permitted places to the current generation.
    pub(crate) fn refresh(&self, permitted: &mut Permitted, request: &Request, peers: &Peers) {
        let residence = &request.residence;
        if residence.is_free() || permitted.generation == self.generation {
            return;
        }
        let may = |place: &Place| residence.permits(place, self.labels());
        let rows = self.rows.iter().enumerate().filter(|(_, (place, n))| *n > 0 && may(place));
        let here = rows.fold(0, |mask, (at, _)| mask | 1 << at);
        let away = peers.ids().iter().filter(|id| self.permit_one(residence, peers.places(**id)));
        let away = away.fold(0, |mask, id| mask | 1 << id.0);
        *permitted = Permitted {
            generation: self.generation,
            places: if request.here { here } else { 0 },
            peers: away,
            somewhere: here | away != 0 || self.atlas.places.iter().any(may),
        };
    }

    fn labels(&self) -> &BTreeMap<alloc::string::String, meridian_base::residency::Labels> {
        &self.atlas.labels
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use meridian_base::{ModelId, RequestId};

    use meridian_base::residency::{Rule, Term};

    fn rack(n: usize) -> Arc<Place> {
        let labels = BTreeMap::from([("rack".to_string(), n.to_string())]);
        Arc::new(Place { labels, ..Place::region("eu") })
    }

    /// A request that must be served where the label `rack` is one of these.
    fn kept(racks: &[usize]) -> Request {
        let run_in = racks.iter().map(|n| Term::Label("rack".to_string(), n.to_string())).collect();
        let mut residence = Residence::default();
        residence.add([Rule { name: "kept".to_string(), run_in, ..Rule::default() }]);
        Request {
            prompt_tokens: 1,
            block_tokens: 1.0,
            residence,
            ..Request::plain(RequestId(1), ModelId(0))
        }
    }

    // A place has one number however many replicas are there, and releases it with the last one.
    // Over a gateway's life there are far more places than numbers. A request whose mask was made
    // with a number's old meaning does not apply it to the new one.
    #[test]
    fn numbers_are_given_back() {
        let (mut places, peers) = (Places::new(), Peers::default());
        assert_eq!((places.enter(&rack(0)), places.enter(&rack(0))), (0, 0));
        let request = kept(&[1]);
        let mut permitted = Permitted::at_first(&request);
        assert_eq!((permitted.places, permitted.somewhere), (0, false));
        for n in 1..1000 {
            assert_eq!(places.enter(&rack(n)), 1);
            places.refresh(&mut permitted, &request, &peers);
            let is_its_own = n == 1;
            assert_eq!(
                (permitted.places, permitted.somewhere),
                (u64::from(is_its_own) << 1, is_its_own)
            );
            assert!(places.leave(1));
        }
        assert!(!places.leave(0), "one is left");
        assert_eq!(places.enter(&rack(0)), 0);
    }

    // With every number taken, no rule permits a further place, and every other place is
    // unaffected.
    #[test]
    fn numbers_run_out() {
        let (mut places, peers) = (Places::new(), Peers::default());
        for n in 0..MOST_PLACES {
            assert_eq!(usize::from(places.enter(&rack(n))), n);
        }
        let beyond = places.enter(&rack(MOST_PLACES));
        assert!(!Places::is_numbered(beyond) && !places.leave(beyond));
        let request = kept(&(0..=MOST_PLACES).collect::<Vec<_>>());
        let mut permitted = Permitted::at_first(&request);
        places.refresh(&mut permitted, &request, &peers);
        assert_eq!(permitted.places, u64::MAX >> 1);
        assert!(!Places::within(beyond, permitted.places) && Places::within(beyond, u64::MAX));
        assert_eq!(places.named(0b101), [rack(0), rack(2)]);
        assert!(places.leave(7));
        assert_eq!(places.enter(&rack(MOST_PLACES)), 7);
    }
}
