//! The map of clients: prefixes of addresses and the region of each. The longest prefix that
//! contains a client wins.
//!
//! The map also knows how far an answer reaches. A resolver that sends a client's subnet may reuse
//! the answer for all clients in the scope that comes back (RFC 7871, section 7.2.1), so the scope
//! must not contain an address of another region, and it should be as wide as possible, or the
//! resolver asks again for every subnet. A more specific prefix inside a wider one divides it:
//! `ranges.rs` divides the whole address space so.
//!
//! Deliberately not here: databases of countries or cities. An operator who has one makes a list
//! of prefixes from it.

mod entries;
mod ranges;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

pub use self::entries::{Entry, Place, entries_of_text};
use self::ranges::Ranges;
use crate::fleet::Family;
use crate::problem::Problem;

/// Which region a client belongs to.
#[derive(Clone, Debug, Default)]
pub struct ClientMap {
    /// The names of the regions, each once.
    regions: Vec<String>,
    /// The region of clients that no prefix contains.
    default: Option<usize>,
    v4: Table,
    v6: Table,
}

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// The region; the default one if no prefix contains the client.
    pub region: Option<&'a str>,
    /// The longest prefix that contains the client.
    pub prefix: Option<IpNet>,
    /// Length in bits of the shortest prefix of the client all of whose addresses have the same
    /// region; 0 if that is the whole family.
    pub scope: u8,
}

/// A prefix by its bits, left-aligned, and its region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MapRow {
    start: u128,
    length: u8,
    region: usize,
}

/// The prefixes of one family.
#[derive(Clone, Debug, Default)]
struct Table {
    /// In the order of their bits, a shorter prefix before the longer ones inside it.
    rows: Vec<MapRow>,
    /// The lengths that occur, the longest first.
    lengths: Vec<u8>,
    ranges: Ranges,
}

impl ClientMap {
    /// Makes a map of these entries. `default` is the region of clients that no prefix contains.
    /// Takes time and memory in proportion to the entries; a lookup takes their logarithm.
    ///
    /// # Errors
    /// Entries that are not a prefix or a region, and a prefix that has two regions, with their
    /// places. The first 20 are listed.
    pub fn new<'a>(
        entries: impl IntoIterator<Item = Entry<'a>>,
        default: Option<&str>,
    ) -> Result<ClientMap, Vec<Problem>> {
        let (mut regions, rows) = entries::read(entries)?;
        let default = default.map(|name| {
            let known = regions.iter().position(|region| region == name);
            known.unwrap_or_else(|| {
                regions.push(name.to_owned());
                regions.len() - 1
            })
        });
        let [v4, v6] = rows.map(|rows| Table::new(rows, default));
        Ok(ClientMap { regions, default, v4, v6 })
    }

    /// The region of a client, and how far the answer reaches.
    #[must_use]
    pub fn find(&self, client: IpAddr) -> Found<'_> {
        let family = Family::of(client);
        let table = match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        };
        let bits = bits(client);
        let (region, scope) = table.ranges.find(bits);
        let prefix = table.longest(bits).map(|row| prefix(family, row));
        Found { region: region.map(|at| self.regions[at].as_str()), prefix, scope }
    }

    /// The region of clients that no prefix contains.
    #[must_use]
    pub fn default_region(&self) -> Option<&str> {
        self.default.map(|at| self.regions[at].as_str())
    }

    /// All regions that the map names, the default one included.
    pub fn regions(&self) -> impl Iterator<Item = &str> {
        self.regions.iter().map(String::as_str)
    }

    /// The number of prefixes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.v4.rows.len() + self.v6.rows.len()
    }

    /// Whether it has no prefix.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Table {
    fn new(rows: Vec<MapRow>, default: Option<usize>) -> Table {
        let mut lengths: Vec<u8> = rows.iter().map(|row| row.length).collect();
        lengths.sort_unstable_by(|a, b| b.cmp(a));
        lengths.dedup();
        let ranges = Ranges::new(&rows, default);
        Table { rows, lengths, ranges }
    }

    /// The longest prefix that contains an address: one search for each length that occurs.
    fn longest(&self, bits: u128) -> Option<MapRow> {
        self.lengths.iter().find_map(|&length| {
            let start = bits & mask(length);
            let at =
                self.rows.binary_search_by_key(&(start, length), |row| (row.start, row.length));
            at.ok().map(|at| self.rows[at])
        })
    }
}

/// The bits of an address, left-aligned: the prefixes of both families then start at the same bit.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(ip) => u128::from(u32::from(ip)) << 96,
        IpAddr::V6(ip) => u128::from(ip),
    }
}

/// The first `length` bits.
fn mask(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
}

fn prefix(family: Family, row: MapRow) -> IpNet {
    let address = match family {
        Family::V4 => {
            let high = u32::try_from(row.start >> 96).expect("32 bits remain");
            IpAddr::V4(Ipv4Addr::from(high))
        }
        Family::V6 => IpAddr::V6(Ipv6Addr::from(row.start)),
    };
    IpNet::new(address, row.length).expect("a row is no longer than its family")
}

#[cfg(test)]
mod tests;
