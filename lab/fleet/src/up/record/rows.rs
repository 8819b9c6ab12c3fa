//! The counts of all places side by side.

use super::tally::{NAMES, Tally};
use crate::ClientCounts;
use crate::page::table;

/// Places that show what a gateway did.
const PLACES: [&str; 6] = ["status", "metrics", "page", "access log", "journal", "traces"];

/// The counts of each gateway, and the clients' own.
pub(super) struct Rows {
    client: Option<Tally>,
    gateways: Vec<(String, [Tally; PLACES.len()])>,
}

impl Rows {
    pub(super) fn new(client: Option<&ClientCounts>) -> Rows {
        Rows { client: client.map(Tally::of_client), gateways: Vec::new() }
    }

    /// Adds a region's gateway, its places in their order.
    pub(super) fn add(&mut self, region: &str, places: [Tally; PLACES.len()]) {
        self.gateways.push((region.to_owned(), places));
    }

    /// The sums over all gateways, by place; first the clients, of which any may use any gateway.
    fn sums(&self) -> Vec<(&'static str, Tally)> {
        let client = self.client.map(|tally| ("clients", tally));
        let place = |at: usize| self.gateways.iter().map(move |(_, places)| &places[at]);
        let sum = |at: usize| {
            let all = std::array::from_fn(|name| place(at).map(|tally| tally.0[name]).sum());
            (PLACES[at], Tally(all))
        };
        client.into_iter().chain((0..PLACES.len()).map(sum)).collect()
    }

    /// A line for each quantity, a column for each place.
    pub(super) fn table(&self) -> String {
        let sums = self.sums();
        let places = sums.iter().map(|(place, _)| *place);
        let mut table = table(&[""].into_iter().chain(places).chain([""]).collect::<Vec<_>>());
        for (at, name) in NAMES.iter().enumerate() {
            let cell = |tally: &Tally| tally.0[at].map_or_else(|| "-".into(), |n| n.to_string());
            let agree = differing(&sums, at).is_none();
            let verdict = if agree { "agree" } else { "DIFFER" };
            let cells = sums.iter().map(|(_, tally)| cell(tally));
            let row = [(*name).to_owned()].into_iter().chain(cells).chain([verdict.to_owned()]);
            table.add_row(row.collect::<Vec<_>>());
        }
        table.to_string()
    }

    /// One sentence for each quantity on which the places of a gateway, or the sums, differ.
    pub(super) fn faults(&self) -> Vec<String> {
        let named = |places: &[Tally]| -> Vec<_> {
            PLACES.into_iter().zip(places.iter().copied()).collect()
        };
        let of = self.gateways.iter().map(|(region, places)| (&**region, named(places)));
        let all = of.chain([("all gateways", self.sums())]);
        all.flat_map(|(whose, tallies)| {
            let one = move |(at, name): (usize, &&str)| {
                let [(a, n), (b, m)] = differing(&tallies, at)?;
                Some(format!(
                    "{whose}: requests or tokens \"{name}\" are {n} in {a} and {m} in {b}"
                ))
            };
            NAMES.iter().enumerate().filter_map(one).collect::<Vec<_>>()
        })
        .collect()
    }
}

/// The first place with a count of this quantity, and the first that has another count.
fn differing<'a>(tallies: &[(&'a str, Tally)], at: usize) -> Option<[(&'a str, u64); 2]> {
    let mut counts = tallies.iter().filter_map(|(place, tally)| Some((*place, tally.0[at]?)));
    let first = counts.next()?;
    Some([first, counts.find(|(_, count)| *count != first.1)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(change: fn(&mut [Tally; PLACES.len()])) -> Rows {
        let mut places = [Tally([Some(7); NAMES.len()]); PLACES.len()];
        // The page shows the first quantity alone.
        places[2] = Tally([Some(7), None, None, None, None, None, None]);
        let mut rows = Rows::new(Some(&ClientCounts { sent: 14, ok: 14, ..Default::default() }));
        rows.client = Some(Tally([None, Some(14), Some(14), None, Some(14), Some(14), Some(14)]));
        rows.add("us", places);
        change(&mut places);
        rows.add("eu", places);
        rows
    }

    // Two gateways and their clients agree; what a place does not show is no difference.
    #[test]
    fn sums_agree() {
        let rows = rows(|_| {});
        assert_eq!(rows.faults(), Vec::<String>::new());
        let table = rows.table();
        assert_eq!((table.matches("agree").count(), table.matches('-').count()), (7, 8), "{table}");
    }

    // A line that one place lacks is named with its gateway, and in the sum.
    #[test]
    fn a_lost_line_is_named() {
        let rows = rows(|places| places[5].0[1] = Some(6));
        let faults = rows.faults();
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].contains("eu") && faults[0].contains("6 in traces"), "{faults:?}");
        assert!(faults[1].contains("14 in clients and 13 in traces"), "{faults:?}");
        assert_eq!(rows.table().matches("DIFFER").count(), 1);
    }
}
