//! Distances between regions, as round trips: measured ones, else those that operators set.
//!
//! Gateways measure the round trips to their peers. Where they have not, or not yet, the records of
//! the two regions may name one. Everything that decides by distance uses this rule, so all sides
//! with the same records agree on who is nearest.
//!
//! Deliberately not here: a guess for two regions without a distance. Callers treat it as the
//! farthest.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Gateway, Region};

/// Round trips by the regions at both ends: from the one whose gateways measure, to the other.
pub type Distances = BTreeMap<(String, String), Duration>;

/// The round trips between these regions: the shortest that the living `gateways` of the first
/// region measured to the second; else the value in the record of the first region, or else of the
/// second. Values that are no durations are left out.
///
/// A measured round trip counts only in the direction of the region that measured it. So to
/// find a region that could serve for a lost one, look up the distances from the living regions to
/// the lost one.
#[must_use]
pub fn distances<'a>(
    regions: impl IntoIterator<Item = (&'a String, &'a Region)>,
    gateways: impl IntoIterator<Item = &'a Gateway>,
) -> Distances {
    let mut found = Distances::new();
    for gateway in gateways {
        for (to, rtt) in durations(&gateway.rtt_ms) {
            let known = found.entry((gateway.region.clone(), to.clone())).or_insert(rtt);
            *known = rtt.min(*known);
        }
    }
    let regions: Vec<_> = regions.into_iter().collect();
    let written = || {
        regions.iter().flat_map(|&(from, region)| {
            durations(&region.rtt_ms).map(move |(to, rtt)| (from, to, rtt))
        })
    };
    for (from, to, rtt) in written() {
        found.entry((from.clone(), to.clone())).or_insert(rtt);
    }
    // Last: the first region's own record goes before the other one's.
    for (from, to, rtt) in written() {
        found.entry((to.clone(), from.clone())).or_insert(rtt);
    }
    found
}

fn durations(rtt_ms: &BTreeMap<String, f64>) -> impl Iterator<Item = (&String, Duration)> {
    rtt_ms.iter().filter_map(|(to, ms)| {
        let rtt = Duration::try_from_secs_f64(ms / 1e3).ok()?;
        Some((to, rtt))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rtts(of: &[(&str, f64)]) -> BTreeMap<String, f64> {
        of.iter().map(|(to, ms)| ((*to).to_owned(), *ms)).collect()
    }

    fn record(of: &[(&str, f64)]) -> Region {
        Region { rtt_ms: rtts(of), ..Region::default() }
    }

    fn gateway(region: &str, of: &[(&str, f64)]) -> Gateway {
        Gateway { region: region.to_owned(), rtt_ms: rtts(of), ..Gateway::default() }
    }

    /// The distances in ms.
    fn ms(regions: &[(&str, Region)], gateways: &[Gateway]) -> BTreeMap<String, u128> {
        let regions: BTreeMap<String, Region> =
            regions.iter().map(|(name, region)| ((*name).to_owned(), region.clone())).collect();
        let found = distances(&regions, gateways);
        found.iter().map(|((a, b), rtt)| (format!("{a}-{b}"), rtt.as_millis())).collect()
    }

    fn all(of: &[(&str, u128)]) -> BTreeMap<String, u128> {
        of.iter().map(|(pair, ms)| ((*pair).to_owned(), *ms)).collect()
    }

    // A distance that one side's record has counts in both directions; if both have one, each
    // direction has its own side's.
    #[test]
    fn records_count_both_ways() {
        let (us, eu) = (record(&[("eu", 92.0), ("asia", 167.0)]), record(&[("us", 90.0)]));
        let expected = all(&[("asia-us", 167), ("eu-us", 90), ("us-asia", 167), ("us-eu", 92)]);
        assert_eq!(ms(&[("us", us), ("eu", eu)], &[]), expected);
    }

    // The shortest measured distance counts, also when operators set a shorter one, and only in the
    // direction in which it was measured.
    #[test]
    fn measured_ones_come_first() {
        let us = record(&[("eu", 50.0)]);
        let gateways = [gateway("us", &[("eu", 95.0)]), gateway("us", &[("eu", 93.0)])];
        assert_eq!(ms(&[("us", us)], &gateways), all(&[("eu-us", 50), ("us-eu", 93)]));
        assert_eq!(ms(&[], &gateways), all(&[("us-eu", 93)]));
    }

    // Values that are no durations do not count, and do not hide one that is.
    #[test]
    fn other_values_do_not_count() {
        let us = record(&[("eu", f64::NAN), ("asia", -1.0)]);
        let eu = record(&[("us", 92.0)]);
        let gateways = [gateway("us", &[("eu", f64::INFINITY)])];
        let expected = all(&[("eu-us", 92), ("us-eu", 92)]);
        assert_eq!(ms(&[("us", us), ("eu", eu)], &gateways), expected);
    }
}
