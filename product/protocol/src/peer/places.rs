//! The places of a peer's replicas, in its news.
//!
//! A place that breaks a limit is left out when written, and skipped when read. A replica with an
//! unknown place is permitted nothing, which is safe, and one bad place must not hide the rest of a
//! region. Leaving out a single label would not be safe, since a replica's own label overrides its
//! region's.

use std::collections::BTreeSet;
use std::sync::Arc;

use meridian_base::residency::{MOST_PLACES, Place};
use prost::Message;

use super::bounds::{MOST_NAME, PeerError, at_most};
use super::identity::label;
use super::proto;

/// Most labels of a place.
const MOST_LABELS: usize = 32;
/// Most bytes of all places together, so that the replicas still fit.
const MOST_BYTES: usize = 16 << 10;

pub(super) fn write(places: &[Arc<Place>]) -> proto::Places {
    let mut bytes = 0;
    let written = places.iter().filter(|place| fits(place)).map(|place| one(place));
    let written = written.take(MOST_PLACES).take_while(|place| {
        bytes += place.encoded_len();
        bytes <= MOST_BYTES
    });
    proto::Places { places: written.collect() }
}

fn fits(place: &Place) -> bool {
    let is_short = |text: &String| text.len() <= MOST_NAME;
    let labels = &place.labels;
    label("region", &place.region).is_ok()
        && labels.len() <= MOST_LABELS
        && labels.iter().all(|(name, value)| is_short(name) && is_short(value))
}

fn one(place: &Place) -> proto::Place {
    let label = |(name, value): (&String, &String)| proto::Label {
        name: name.clone(),
        value: value.clone(),
    };
    proto::Place { region: place.region.clone(), labels: place.labels.iter().map(label).collect() }
}

pub(super) fn read(sent: proto::Places) -> Result<Vec<Arc<Place>>, PeerError> {
    at_most("places", sent.places.len(), MOST_PLACES)?;
    let place = |place: proto::Place| {
        let labels = place.labels.into_iter().map(|label| (label.name, label.value));
        Place { region: place.region, labels: labels.collect() }
    };
    let places: BTreeSet<Place> = sent.places.into_iter().map(place).filter(fits).collect();
    Ok(places.into_iter().map(Arc::new).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(region: &str, labels: &[(&str, &str)]) -> Arc<Place> {
        let label = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Arc::new(Place { labels: labels.iter().map(label).collect(), ..Place::region(region) })
    }

    // Written places read back as the same. A place over its limits is left out, and the others are
    // sent. From an older gateway, a place that breaks a limit or whose region has no name is
    // skipped, and the others are read.
    #[test]
    fn read_back() {
        let places = [place("eu", &[]), place("us", &[("jurisdiction", "eu"), ("rack", "a")])];
        assert_eq!(read(write(&places)), Ok(places.to_vec()));
        let long = "x".repeat(MOST_NAME + 1);
        let labels: Vec<String> = (0..=MOST_LABELS).map(|n| n.to_string()).collect();
        let labels: Vec<(&str, &str)> = labels.iter().map(|n| (n.as_str(), "1")).collect();
        let odd = [place("eu", &labels), place("eu", &[("a", &long)]), places[0].clone()];
        assert_eq!(read(write(&odd)), Ok(places[..1].to_vec()));
        let raw = |place: &Arc<Place>| proto::Places { places: vec![one(place)] };
        for odd in [&odd[0], &odd[1], &place("ap_south", &[]), &place("", &[])] {
            assert_eq!(read(raw(odd)), Ok(Vec::new()));
            let both = proto::Places { places: vec![one(odd), one(&places[0])] };
            assert_eq!(read(both), Ok(places[..1].to_vec()));
            assert_eq!(write(std::slice::from_ref(odd)).places, []);
        }
        let many = proto::Places { places: vec![one(&places[0]); MOST_PLACES + 1] };
        assert!(read(many).is_err());
    }

    // Many long places leave enough bytes for the rest of the message.
    #[test]
    fn bounded() {
        let value = "v".repeat(MOST_NAME);
        let names: Vec<String> = (0..MOST_LABELS).map(|n| n.to_string()).collect();
        let labels: Vec<(&str, &str)> =
            names.iter().map(|n| (n.as_str(), value.as_str())).collect();
        let all: Vec<_> = (0..MOST_PLACES).map(|n| place(&format!("r{n}"), &labels)).collect();
        let written = write(&all);
        assert!(written.encoded_len() <= MOST_BYTES + 1024, "{}", written.encoded_len());
        assert!(!written.places.is_empty() && written.places.len() < MOST_PLACES);
    }
}
