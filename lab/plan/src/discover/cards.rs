//! The network cards of a server, from what the kernel shows in `/sys`.
//!
//! A card is a PCI function with a cable. An RDMA port and a network device of one PCI address are
//! one card. A server of a topology has cards of one rate, so the fastest ones are its cards, and
//! slower ones, as those for management, are left out and named.

use std::collections::BTreeMap;

use super::parts::{numa, pci};
use crate::units::Rate;

/// A card.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    /// Its RDMA device's name if it has one, otherwise its network device's.
    pub(super) name: String,
    /// Bytes a second; `None` if the kernel does not know.
    pub(super) rate: Option<f64>,
    /// Its NUMA node.
    pub(super) numa: u8,
}

/// The cards of a server and the ones left out, with the reason.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cards {
    /// By PCI address.
    pub(super) used: Vec<Found>,
    /// Name and reason.
    pub(super) others: Vec<(String, String)>,
}

/// Reads the lines `net` and `rdma` of the part `sysfs`.
pub(super) fn cards(text: &str, left_out: &[String], rate: Option<Rate>) -> Cards {
    let mut cards = Cards::default();
    let mut all: BTreeMap<String, Found> = BTreeMap::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split('\t').map(str::trim).collect();
        let (name, address, node, is_up, own) = match cells[..] {
            ["net", name, address, node, state, speed] => {
                (name, address, node, state != "down", megabits(speed))
            }
            ["rdma", name, address, node, state, rate, _] => {
                (name, address, node, state.contains("ACTIVE"), gigabits(rate))
            }
            _ => continue,
        };
        // Without a PCI address, as of a virtual machine's virtio card, the name is the place.
        let place = pci(address).unwrap_or_else(|| format!("{address}/{name}"));
        if !is_up {
            // An InfiniBand card's network device is down unless IP runs over it.
            if cells[0] == "rdma" {
                cards.others.push((name.to_owned(), "its link is down".to_owned()));
            }
            continue;
        }
        let one = Found { name: name.to_owned(), rate: own, numa: numa(node) };
        let known = all.entry(place).or_insert_with(|| one.clone());
        if cells[0] == "rdma" {
            known.name = one.name;
        }
        known.rate = known.rate.or(one.rate);
    }
    for card in all.values_mut().filter(|card| card.rate.is_none()) {
        card.rate = rate.map(|rate| rate.0);
    }
    sort(all.into_values().collect(), left_out, &mut cards);
    cards
}

fn sort(all: Vec<Found>, left_out: &[String], cards: &mut Cards) {
    let (asked, all): (Vec<Found>, Vec<Found>) =
        all.into_iter().partition(|card| left_out.contains(&card.name));
    cards.others.extend(asked.into_iter().map(|card| (card.name, "--leave-out".to_owned())));
    let most = all.iter().filter_map(|card| card.rate).fold(0.0, f64::max);
    for card in all {
        match card.rate {
            Some(rate) if rate >= most * 0.99 => cards.used.push(card),
            Some(rate) => {
                let why = format!("{} is less than {}", Rate(rate), Rate(most));
                cards.others.push((card.name, why));
            }
            None => {
                let why = "the kernel knows no rate of it; --card-rate gives one".to_owned();
                cards.others.push((card.name, why));
            }
        }
    }
    cards.others.sort();
}

/// The speed of a network device, in Mb/s; -1 is an unknown one.
fn megabits(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|speed| *speed > 0.0).map(|speed| speed * 125e3)
}

/// The rate of an RDMA port: `400 Gb/sec (4X NDR)`.
fn gigabits(text: &str) -> Option<f64> {
    let number = text.split_once(" Gb/sec")?.0.trim().parse::<f64>().ok()?;
    (number > 0.0).then_some(number * 125e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "net\teno1\t0000:02:00.0\t0\tup\t1000
net\tibs1\t0000:1a:00.0\t0\tdown\t-1
net\tens2\t0000:3c:00.0\t1\tup\t400000
rdma\tmlx5_0\t0000:1a:00.0\t0\t4: ACTIVE\t400 Gb/sec (4X NDR)\t1
rdma\tmlx5_1\t0000:3c:00.0\t1\t4: ACTIVE\t400 Gb/sec (4X NDR)\t1
rdma\tmlx5_2\t0000:4d:00.0\t1\t1: DOWN\t10 Gb/sec (4X SDR)\t1";

    // A port and its network device are one card; slow ones and ones without a cable are left out.
    #[test]
    fn cards_are_counted_once() {
        let found = cards(LINES, &[], None);
        let used: Vec<_> = found.used.iter().map(|card| (card.name.as_str(), card.numa)).collect();
        assert_eq!(used, [("mlx5_0", 0), ("mlx5_1", 1)]);
        assert!(found.used.iter().all(|card| card.rate == Some(50e9)));
        let others: Vec<String> =
            found.others.iter().map(|(name, why)| format!("{name}: {why}")).collect();
        assert_eq!(others, ["eno1: 125MB/s is less than 50GB/s", "mlx5_2: its link is down"]);
    }

    // A card can be left out, and a card of a virtual machine needs a rate.
    #[test]
    fn cards_by_option() {
        let found = cards(LINES, &["mlx5_1".to_owned()], None);
        assert_eq!(found.used.len(), 1);
        assert!(found.others.contains(&("mlx5_1".to_owned(), "--leave-out".to_owned())));
        let line = "net\teth0\tvirtio2\t\tup\t-1";
        assert!(cards(line, &[], None).used.is_empty());
        let rated = cards(line, &[], Some(Rate(12.5e9)));
        assert_eq!(rated.used, [Found { name: "eth0".to_owned(), rate: Some(12.5e9), numa: 0 }]);
    }
}
