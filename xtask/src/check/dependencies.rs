//! Every library that the workspace uses is listed in notes/decisions/dependencies.md with its
//! reason.
//!
//! The page is a table whose first column names the libraries in backticks. A line for an unused
//! library is a violation too.

use std::collections::BTreeSet;

use super::{Broken, Rule, of};

pub(crate) const RULE: Rule = Rule {
    name: "dependencies",
    holds: "every library has its reason in notes/decisions",
    run: |house| {
        let mut used = BTreeSet::new();
        for package in house.packages() {
            let outside = package.dependencies.iter().filter(|one| one.path.is_none());
            used.extend(outside.map(|one| one.name.clone()));
        }
        Ok(broken(house.text(PAGE).unwrap_or_default(), &used))
    },
};

const PAGE: &str = "notes/decisions/dependencies.md";

fn broken(page: &str, used: &BTreeSet<String>) -> Vec<Broken> {
    let named = named(page);
    let missing = used
        .difference(&named)
        .map(|name| of(PAGE, format!("{name} is used and has no line; say what it is for")));
    let stale = named
        .difference(used)
        .map(|name| of(PAGE, format!("{name} has a line and no crate uses it")));
    missing.chain(stale).collect()
}

/// The names in the first column of the table, from lines that also give a reason.
fn named(page: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let mut columns = row.trim_matches('|').split('|');
        let (libraries, reason) = (columns.next(), columns.next());
        if reason.is_some_and(|reason| !reason.trim().is_empty()) {
            let spans = libraries.unwrap_or_default().split('`').skip(1).step_by(2);
            names.extend(spans.map(str::to_owned));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A\n\n| library | why |\n| --- | --- |\n\
        | `http`, `bytes` | types |\n| `tokio` | |\n";

    fn used(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    // A line without a reason does not count.
    #[test]
    fn a_library_without_its_reason_is_found() {
        let found = broken(PAGE, &used(&["http", "bytes", "tokio", "serde"]));
        let names: Vec<_> = found.iter().filter_map(|one| one.what.split(' ').next()).collect();
        assert_eq!(names, ["serde", "tokio"]);
    }

    // A library that is no longer used leaves the table.
    #[test]
    fn a_stale_line_is_found() {
        let found = broken(PAGE, &used(&["http"]));
        assert!(found[0].what.starts_with("bytes has a line"), "{found:?}");
    }
}
