//! Our answers beside another server's, question by question.

use std::net::SocketAddr;

use crate::common::{ZONE, ours, state};
use crate::questions::{CLIENTS, Family, Subnet, Told, subnets, told};

/// One question and both answers.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) subnet: Subnet,
    pub(crate) ours: Told,
    pub(crate) theirs: Told,
}

impl Row {
    /// Whether the subnet contains several regions: our scope is then longer than it.
    pub(crate) fn is_mixed(&self) -> bool {
        self.ours.scope > self.subnet.length
    }
}

/// All questions to both servers, for the same map.
pub(crate) fn rows(theirs: SocketAddr) -> Vec<Row> {
    let map: String =
        CLIENTS.iter().map(|(prefix, region)| format!("{prefix} {region}\n")).collect();
    let ours = ours(state(&map));
    let mut rows = Vec::new();
    for (n, subnet) in subnets().into_iter().enumerate() {
        let family = if n % 2 == 0 { Family::V4 } else { Family::V6 };
        let told = |at| told(at, ZONE, family, subnet);
        rows.push(Row { subnet, ours: told(ours), theirs: told(theirs) });
    }
    rows
}

/// Whether the first `scope` bits of a row's subnet contain a client of another region than its
/// own, among all clients that were asked for with their whole address.
pub(crate) fn has_others(rows: &[Row], row: &Row, scope: u8, region: &str) -> bool {
    rows.iter().any(|other| {
        let width = if other.subnet.address.is_ipv4() { 32 } else { 128 };
        other.subnet.length == width
            && row.subnet.contains(scope, other.subnet.address)
            && other.ours.region != region
    })
}

/// How another server's scopes differ, in numbers of subnets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Its scope is longer: resolvers ask more often than they need to.
    pub(crate) longer: u32,
    /// Its scope is shorter.
    pub(crate) shorter: u32,
    /// Its scope contains clients of another region.
    pub(crate) unsound: u32,
}

/// Checks what holds for ours beside any other server: the same region for every subnet that has
/// one, and no client of another region in our scope. Prints how the scopes differ.
pub(crate) fn check(name: &str, rows: &[Row]) -> Difference {
    let mut found = Difference::default();
    let mixed = rows.iter().filter(|row| row.is_mixed()).count();
    for row in rows {
        let Row { subnet, ours, theirs } = row;
        assert!(!has_others(rows, row, ours.scope, &ours.region), "{row:?}");
        if !row.is_mixed() {
            assert_eq!(ours.region, theirs.region, "{subnet:?}");
        }
        found.longer += u32::from(theirs.scope > ours.scope);
        found.shorter += u32::from(theirs.scope < ours.scope);
        found.unsound += u32::from(has_others(rows, row, theirs.scope, &theirs.region));
    }
    println!("{name}: {} subnets, {mixed} of several regions; scopes: {found:?}", rows.len());
    found
}
