//! Lists of names: each once, and each as it is. A `*` in a name is no pattern here, so a name that has
//! one would match nothing.

use std::collections::BTreeSet;
use std::fmt::Display;

/// Checks that no entry is there twice.
pub(super) fn twice<T: Ord + Display>(at: &str, list: &[T], check: &mut impl FnMut(bool, String)) {
    let mut seen = BTreeSet::new();
    for (i, one) in list.iter().enumerate() {
        check(seen.insert(one), format!("{at}[{i}]: `{one}` is there twice; remove one"));
    }
}

/// Checks that a name is not meant as a pattern.
pub(super) fn exact(at: &str, name: &str, check: &mut impl FnMut(bool, String)) {
    let shown: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
    check(
        !name.contains('*'),
        format!("{at}: `{shown}` has a `*`, and names are compared as they are; write each name"),
    );
}
