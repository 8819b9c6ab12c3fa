//! The cycles of a graph: its strongly connected components of more than one file.
//!
//! Crates have at most a few hundred files, so each file's reach is computed separately.

use std::collections::{BTreeMap, BTreeSet};

use super::resolve::Edge;

/// The largest first; ties by name.
pub(in crate::check) fn circles(edges: &[Edge]) -> Vec<BTreeSet<String>> {
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for edge in edges {
        next.entry(&edge.from).or_default().push(&edge.to);
    }
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        next.keys().map(|from| (*from, reached(from, &next))).collect();
    let mut circles = BTreeSet::new();
    for (from, reached) in &reach {
        let returns = |to: &&str| reach.get(to).is_some_and(|back| back.contains(from));
        let circle: BTreeSet<String> =
            reached.iter().copied().filter(returns).map(str::to_owned).collect();
        if circle.len() > 1 {
            circles.insert(circle);
        }
    }
    let mut circles: Vec<_> = circles.into_iter().collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    circles
}

/// The files that `from` imports, directly or through others.
fn reached<'a>(from: &'a str, next: &BTreeMap<&'a str, Vec<&'a str>>) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        for to in next.get(file).into_iter().flatten().copied() {
            if reached.insert(to) {
                open.push(to);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    // Files that only lead into a cycle or out of it are not part of it.
    #[test]
    fn a_cycle_is_its_own_files_alone() {
        let edge = |(from, to): (&str, &str)| Edge {
            from: from.into(),
            to: to.into(),
            line: 1,
            name: String::new(),
        };
        let edges = [("in", "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("c", "out"), ("x", "y")];
        let edges: Vec<_> = edges.into_iter().chain([("y", "x")]).map(edge).collect();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(circles(&edges), [names(&["a", "b", "c"]), names(&["x", "y"])]);
    }
}
