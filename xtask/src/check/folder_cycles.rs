//! Top-level modules of a crate do not form import cycles of more than two.
//!
//! `cycles` keeps single files readable one by one. This rule does the same for the parts of a
//! crate: a module below the root, with its folder and all files in it, is one part. The parts of
//! a cycle can only be moved to a crate of their own together.

use std::collections::{BTreeMap, BTreeSet};

use super::Rule;
use super::cycles::{self, Crate, Edge, LIMIT};
use super::ratchet::{Better, Numbers, Ratchet};
use crate::house::House;

pub(crate) const RULE: Rule = Rule {
    name: "folder-cycles",
    holds: "no import cycle of more than two modules of a crate",
    run: |house| {
        let crates = cycles::crates(house);
        let sizes = measured(crates);
        println!("       modules in the largest import cycle: {}", shown(&sizes));
        RATCHET.judge(house, &sizes, &|name| imports(crates, name))
    },
};

pub(super) const RATCHET: Ratchet = Ratchet {
    name: RULE.name,
    better: Better::Less,
    moves: false,
    remedy: "move what several modules need into one that imports none of them, or pass it as an \
             argument; break an import that points up",
    measure: |house: &House| Ok(measured(cycles::crates(house))),
};

/// The crates with a larger cycle than allowed, and its size.
fn measured(crates: &[Crate]) -> Numbers {
    let size = |one: &Crate| largest(one).map_or(0, |(modules, _)| modules.len());
    let sizes = crates.iter().map(|one| (one.name.clone(), size(one)));
    sizes.filter(|(_, size)| *size > LIMIT).collect()
}

/// The modules of the largest cycle, and one import for each pair of them.
fn largest(one: &Crate) -> Option<(BTreeSet<String>, Vec<Edge>)> {
    let mut between: BTreeMap<(String, String), &Edge> = BTreeMap::new();
    for edge in &one.edges {
        let ends = (module(&one.folder, &edge.from), module(&one.folder, &edge.to));
        if ends.0 != ends.1 {
            between.entry(ends).or_insert(edge);
        }
    }
    let bare = |(from, to): &(String, String)| Edge {
        from: from.clone(),
        to: to.clone(),
        line: 0,
        name: String::new(),
    };
    let edges: Vec<Edge> = between.keys().map(bare).collect();
    let modules = cycles::circles(&edges).into_iter().next()?;
    let inside = |ends: &(String, String)| modules.contains(&ends.0) && modules.contains(&ends.1);
    let edges = between.into_iter().filter(|(ends, _)| inside(ends)).map(|(_, edge)| edge.clone());
    let edges = edges.collect();
    Some((modules, edges))
}

/// `a` for `src/a.rs` and for everything in `src/a/`.
fn module(folder: &str, path: &str) -> String {
    let inside = path.strip_prefix(folder).and_then(|path| path.strip_prefix("/src/"));
    let first = inside.unwrap_or(path).split('/').next().unwrap_or(path);
    first.strip_suffix(".rs").unwrap_or(first).to_owned()
}

fn shown(sizes: &Numbers) -> String {
    let sizes: Vec<_> = sizes.iter().map(|(name, size)| format!("{name} {size}")).collect();
    if sizes.is_empty() { format!("{LIMIT} or none") } else { sizes.join(", ") }
}

/// The imports of a crate's largest cycle.
fn imports(crates: &[Crate], name: &str) -> String {
    let one = crates.iter().find(|one| one.name == name);
    let (_, edges) = one.and_then(largest).unwrap_or_default();
    let line = |Edge { from, to, line, name }: &Edge| {
        format!("\n         {from}:{line} imports {name} from {to}")
    };
    edges.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::house::File;

    fn crates(files: &[(&str, &str)]) -> Vec<Crate> {
        let manifest = "[package]\nname = \"meridian-a\"\n";
        let mut house = vec![File::of("product/x/Cargo.toml", manifest)];
        let file = |(path, text): &(&str, &str)| File::of(&format!("product/x/src/{path}"), text);
        house.extend(files.iter().map(file));
        cycles::measure(&house)
    }

    // No files import each other in a circle here, but their folders do. The report names each
    // import.
    #[test]
    fn three_modules_in_a_circle_are_found() {
        let crates = crates(&[
            ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("a.rs", "mod deep;\npub struct A;\n"),
            ("a/deep.rs", "use crate::b::B;\n"),
            ("b/mod.rs", "mod deep;\npub struct B;\n"),
            ("b/deep.rs", "use crate::c::C;\n"),
            ("c.rs", "pub struct C(crate::a::A);\n"),
        ]);
        assert_eq!(measured(&crates), [("a".to_owned(), 3)].into());
        let text = imports(&crates, "a");
        let lines: Vec<_> = text.lines().map(str::trim).collect();
        assert_eq!(lines[1], "product/x/src/a/deep.rs:1 imports B from product/x/src/b/mod.rs");
        assert_eq!(lines.len(), 4);
    }

    // Two modules may import each other.
    #[test]
    fn two_modules_may_import_each_other() {
        let crates = crates(&[
            ("lib.rs", "mod a;\nmod b;\n"),
            ("a.rs", "pub struct A;\nfn f() { crate::b::f() }\n"),
            ("b.rs", "use super::a::A;\npub fn f(a: A) {}\n"),
        ]);
        assert_eq!(measured(&crates), Numbers::new());
    }
}
