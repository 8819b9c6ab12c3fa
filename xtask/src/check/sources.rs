//! The source files that become part of a crate's library or binary, without files of tests.
//!
//! Only of the trees: neither xtask nor the crates of single experiments.

use super::cycles;
use crate::house::{House, in_a_tree};

pub(super) struct Source<'a> {
    /// The crate's short name: `gateway`.
    pub(super) owner: &'a str,
    /// The crate's folder from the root.
    pub(super) folder: &'a str,
    pub(super) path: &'a str,
    pub(super) text: &'a str,
}

pub(super) fn sources(house: &House) -> Vec<Source<'_>> {
    let mut found = Vec::new();
    for one in cycles::crates(house) {
        for path in one.files.iter().filter(|path| in_a_tree(path)) {
            let text = house.text(path).unwrap_or_default();
            found.push(Source { owner: &one.name, folder: &one.folder, path, text });
        }
    }
    found
}
