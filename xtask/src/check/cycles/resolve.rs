//! Follows names to the files that define them.
//!
//! Importing a module is not an edge; using names from it is. A module may use its own submodules,
//! which are parts of it, so its imports from them are not edges either; theirs from it are.

use std::collections::BTreeMap;

use super::read::{Import, Module};

/// One file uses a name of another.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::check) struct Edge {
    pub(in crate::check) from: String,
    pub(in crate::check) to: String,
    /// The line of the first use, in `from`.
    pub(in crate::check) line: usize,
    pub(in crate::check) name: String,
}

/// The meaning of a name.
#[derive(Clone, Copy, PartialEq)]
enum Meaning {
    Module(usize),
    /// An item of the module.
    Item(usize),
    /// Of another crate.
    Outside,
    /// Neither defined nor imported here; a macro may have made it.
    Unknown,
}

/// Re-exports of re-exports are followed this far.
const DEPTH: usize = 16;

/// One edge for each pair of files, by the first name that causes it.
pub(super) fn edges(modules: &[Module]) -> Vec<Edge> {
    let mut edges: BTreeMap<(&str, &str), (usize, &str)> = BTreeMap::new();
    for (id, module) in modules.iter().enumerate() {
        let imports = module.imports.iter().filter(|import| is_used(module, import));
        let imports =
            imports.map(|import| (import.line, import.path.as_slice(), import.name == "*"));
        let paths = module.paths.iter().map(|(line, path)| (*line, path.as_slice(), false));
        for (line, path, whole) in imports.chain(paths) {
            let (to, name) = match follow(modules, id, path, DEPTH) {
                (Meaning::Item(to), at) => (to, path.get(at).map_or("", String::as_str)),
                (Meaning::Module(to), _) if whole => (to, "*"),
                _ => continue,
            };
            let own = is_within(modules, to, id);
            let (from, to) = (module.file.as_str(), modules[to].file.as_str());
            if from != to && !own {
                edges.entry((from, to)).or_insert((line, name));
            }
        }
    }
    let edge = |((from, to), (line, name)): ((&str, &str), (usize, &str))| Edge {
        from: from.to_owned(),
        to: to.to_owned(),
        line,
        name: name.to_owned(),
    };
    edges.into_iter().map(edge).collect()
}

/// Whether a module is a submodule of another, however deep.
fn is_within(modules: &[Module], inner: usize, outer: usize) -> bool {
    let mut parents = std::iter::successors(modules[inner].parent, |id| modules[*id].parent);
    parents.any(|parent| parent == outer)
}

/// A re-export only counts where the file uses the name itself.
fn is_used(module: &Module, import: &Import) -> bool {
    !import.exported || module.words.contains(&import.name)
}

/// The meaning of a path, and the segment that determined it.
fn follow(modules: &[Module], id: usize, path: &[String], depth: usize) -> (Meaning, usize) {
    let Some(first) = path.first().filter(|_| depth > 0) else { return (Meaning::Outside, 0) };
    let mut meaning = match first.as_str() {
        "crate" => Meaning::Module(0),
        "self" => Meaning::Module(id),
        "super" => above(modules, id),
        name => match lookup(modules, id, name, depth - 1) {
            Meaning::Unknown => Meaning::Outside,
            meaning => meaning,
        },
    };
    for (at, name) in path.iter().enumerate().skip(1) {
        let Meaning::Module(module) = meaning else { return (meaning, at - 1) };
        meaning = if name == "super" {
            above(modules, module)
        } else {
            match lookup(modules, module, name, depth - 1) {
                Meaning::Unknown => Meaning::Item(module),
                meaning => meaning,
            }
        };
    }
    (meaning, path.len() - 1)
}

fn above(modules: &[Module], id: usize) -> Meaning {
    modules[id].parent.map_or(Meaning::Outside, Meaning::Module)
}

/// The meaning of a name in a module.
fn lookup(modules: &[Module], id: usize, name: &str, depth: usize) -> Meaning {
    let module = &modules[id];
    if let Some(child) = module.children.get(name) {
        return Meaning::Module(*child);
    }
    if module.items.contains(name) {
        return Meaning::Item(id);
    }
    if let Some(import) = module.imports.iter().find(|import| import.name == name) {
        return follow(modules, id, &import.path, depth).0;
    }
    let stars = module.imports.iter().filter(|import| import.name == "*" && depth > 0);
    for star in stars {
        if let (Meaning::Module(other), _) = follow(modules, id, &star.path, depth)
            && other != id
        {
            let meaning = lookup(modules, other, name, depth - 1);
            if !matches!(meaning, Meaning::Unknown) {
                return meaning;
            }
        }
    }
    Meaning::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::cycles::read;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let sources: BTreeMap<&str, &str> = files.iter().copied().collect();
        let edges = edges(&read::modules("/lib.rs", &sources));
        edges.iter().map(|one| format!("{} {} {}", one.from, one.to, one.name)).collect()
    }

    // A re-exported name leads to the file that defines it, and the re-export is not an edge unless
    // the module uses the name.
    #[test]
    fn a_reexport_leads_to_the_definition() {
        let files = |uses: &'static str| {
            found(&[
                ("/lib.rs", "mod a;\nmod deep;\nmod m;\nmod user;\n"),
                ("/a.rs", "pub use super::deep::A;\npub struct B;\n"),
                ("/deep.rs", "pub struct A;\n"),
                ("/m.rs", uses),
                ("/user.rs", "use crate::m::A;\nuse crate::m;\nfn f(a: A, b: m::B) {}\n"),
            ])
        };
        let plain = files("pub use super::a::{A, B};\n");
        assert_eq!(plain, ["/user.rs /a.rs B", "/user.rs /deep.rs A"]);
        let used = files("pub use super::a::{A, B};\npub struct C(B);\n");
        assert_eq!(used[0], "/m.rs /a.rs B");
    }

    // Paths from the root and from a parent, and a star, lead to files. Other crates do not, and
    // neither does a name that a parent imports from one. A module's own submodules are its parts.
    #[test]
    fn paths_lead_to_files() {
        let edges = found(&[
            ("/lib.rs", "use std::fs::File;\nmod a;\nmod b;\nmod c;\nfn f() { a::f() }\n"),
            ("/a.rs", "use super::File;\npub fn f() { crate::b::Kind::One; std::b::f() }\n"),
            ("/b.rs", "use super::c::*;\npub enum Kind { One }\n"),
            ("/c.rs", "pub fn made() { super::b::by_macro() }\n"),
        ]);
        assert_eq!(edges, ["/a.rs /b.rs Kind", "/b.rs /c.rs *", "/c.rs /b.rs by_macro"]);
    }
}
