//! The entries of a map as an operator writes them, and what can be wrong with them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

use super::{MapRow, bits, prefix};
use crate::fleet::Family;
use crate::problem::{Problem, Problems};

/// Most prefixes of a map. So many take at most 100 MB.
const MOST: usize = 1 << 20;

/// A prefix and the region of its clients, as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Where it is written, for messages.
    pub place: Place<'a>,
    /// A prefix such as `10.1.0.0/16` or `2001:db8::/32`, or a single address.
    pub prefix: &'a str,
    /// The region.
    pub region: &'a str,
}

/// Where an entry is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// A field of the configuration.
    Field(&'a str),
    /// A line of a file, from 1.
    Line(&'a str, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Field(field) => f.write_str(field),
            Place::Line(file, line) => write!(f, "{file}:{line}"),
        }
    }
}

/// The entries of a file with a line `PREFIX REGION` for each. Empty lines and text after `#` are
/// ignored.
///
/// # Errors
/// Lines that are not two words. The first 20 are listed.
pub fn entries_of_text<'a>(file: &'a str, text: &'a str) -> Result<Vec<Entry<'a>>, Vec<Problem>> {
    let mut problems = Problems::default();
    let mut entries = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let place = Place::Line(file, number);
        match (words.next(), words.next(), words.next()) {
            (None, ..) => {}
            (Some(prefix), Some(region), None) => entries.push(Entry { place, prefix, region }),
            _ => {
                let form = "write `PREFIX REGION`, such as `10.1.0.0/16 eu`";
                problems.add(Problem::new(place.to_string(), line.trim(), "not two words", form));
            }
        }
    }
    problems.or(entries)
}

/// The regions, and the sorted rows of IPv4 and IPv6.
type Read = (Vec<String>, [Vec<MapRow>; 2]);

pub(super) fn read<'a>(entries: impl IntoIterator<Item = Entry<'a>>) -> Result<Read, Vec<Problem>> {
    let mut problems = Problems::default();
    let mut regions: Vec<String> = Vec::new();
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for entry in entries {
        let net = match net_of(&entry) {
            Ok(net) => net,
            Err(problem) => {
                problems.add(problem);
                continue;
            }
        };
        let region = *known.entry(entry.region).or_insert_with(|| {
            regions.push(entry.region.to_owned());
            regions.len() - 1
        });
        let row = MapRow { start: bits(net.addr()), length: net.prefix_len(), region };
        if net.addr().is_ipv4() { &mut v4 } else { &mut v6 }.push((row, entry.place));
        if v4.len() + v6.len() > MOST {
            let remedy = "merge prefixes of the same region, or leave out those of the default one";
            let more = format!("more than {MOST} prefixes");
            problems.add(Problem::new(entry.place.to_string(), entry.prefix, more, remedy));
            break;
        }
    }
    let rows = [(Family::V4, v4), (Family::V6, v6)].map(|(family, mut placed)| {
        placed.sort_by_key(|(row, _)| *row);
        for pair in placed.windows(2) {
            let [(a, first), (b, second)] = pair else { continue };
            if (a.start, a.length) == (b.start, b.length) && a.region != b.region {
                let value = format!("{} {}", prefix(family, *b), regions[b.region]);
                let cause = format!("{first} has the prefix for {}", regions[a.region]);
                let remedy = "leave one of them out, or write longer prefixes inside it";
                problems.add(Problem::new(second.to_string(), value, cause, remedy));
            }
        }
        let mut rows: Vec<MapRow> = placed.into_iter().map(|(row, _)| row).collect();
        rows.dedup();
        rows
    });
    problems.or((regions, rows))
}

fn net_of(entry: &Entry<'_>) -> Result<IpNet, Problem> {
    let problem = |cause: &str, remedy: String| {
        Problem::new(entry.place.to_string(), entry.prefix, cause, remedy)
    };
    let single = || entry.prefix.parse::<IpAddr>().map(IpNet::from);
    let Ok(net) = entry.prefix.parse::<IpNet>().or_else(|_| single()) else {
        let remedy = "write an address and a length, such as 10.1.0.0/16 or 2001:db8::/32";
        return Err(problem("not a prefix", remedy.to_owned()));
    };
    if net.addr() != net.network() {
        let remedy = format!("write {} or {}", net.trunc(), IpNet::from(net.addr()));
        return Err(problem("it has bits beyond its length", remedy));
    }
    if let IpNet::V6(v6) = net
        && let Some(v4) = v6.addr().to_ipv4_mapped()
    {
        let length = v6.prefix_len().saturating_sub(96);
        let cause = "clients of IPv4 are not found under their addresses in IPv6";
        return Err(problem(cause, format!("write {v4}/{length}")));
    }
    if entry.region.is_empty() {
        return Err(problem("it has no region", "write the name of a region".to_owned()));
    }
    Ok(net)
}
