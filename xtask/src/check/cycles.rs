//! Files of a crate do not form import cycles of more than two.
//!
//! In a cycle no file can be read, tested or moved without the others, and new files are soon
//! pulled in. Two files that belong together, such as a type and its `impl` in a second file, may
//! import each other.
//!
//! `read` scans the source, without test code, and `resolve` follows each name through re-exports
//! to the file that defines it. A `mod` line does not count as an import. Neither does a re-export
//! that the file does not use itself, nor an import from the module's own submodules, which are its
//! parts. Method calls are ignored: the rule is about names.

mod circle;
mod read;
mod resolve;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use super::{Broken, Rule, of};
use crate::house::{File, House};
pub(super) use circle::circles;
pub(super) use resolve::Edge;

pub(crate) const RULE: Rule = Rule {
    name: "cycles",
    holds: "no import cycle of more than two files inside a crate",
    run: |house| {
        let crates = crates(house);
        println!("       largest import cycle: {}", largest(crates));
        Ok(broken(crates, KNOWN))
    },
};

/// Two files may import each other.
pub(super) const LIMIT: usize = 2;

/// Crates with a larger cycle, and how many files it may have. A number here only gets smaller, and
/// the line is removed when the crate keeps the rule.
const KNOWN: &[(&str, usize)] = &[];

/// One crate, without its tests.
pub(super) struct Crate {
    /// The package without the project's prefix: `gateway`.
    pub(super) name: String,
    pub(super) folder: String,
    /// The files that its root leads to.
    pub(super) files: BTreeSet<String>,
    /// Which file imports which.
    pub(super) edges: Vec<Edge>,
    /// The largest first.
    cycles: Vec<Cycle>,
}

/// The files of a cycle and the imports inside it.
struct Cycle {
    files: BTreeSet<String>,
    edges: Vec<Edge>,
}

/// The crates of the repository, read once for all rules.
pub(super) fn crates(house: &House) -> &'static [Crate] {
    static CRATES: OnceLock<Vec<Crate>> = OnceLock::new();
    CRATES.get_or_init(|| measure(&house.files))
}

pub(super) fn measure(files: &[File]) -> Vec<Crate> {
    let sources: BTreeMap<&str, &str> = files
        .iter()
        .filter(|file| file.path.ends_with(".rs"))
        .filter_map(|file| Some((file.path.as_str(), file.text.as_deref()?)))
        .collect();
    let manifests = files.iter().filter_map(|file| {
        Some((file.path.strip_suffix("/Cargo.toml")?, file.text.as_deref().unwrap_or_default()))
    });
    let holds_code = |folder: &str| sources.keys().any(|path| path.starts_with(folder));
    let crates = manifests.filter(|(folder, _)| holds_code(folder));
    crates.map(|(folder, manifest)| of_crate(folder, manifest, &sources)).collect()
}

fn of_crate(folder: &str, manifest: &str, sources: &BTreeMap<&str, &str>) -> Crate {
    let roots = ["lib.rs", "main.rs"].map(|root| format!("{folder}/src/{root}"));
    let (mut files, mut edges) = (BTreeSet::new(), Vec::new());
    for root in roots.iter().filter(|root| sources.contains_key(root.as_str())) {
        let modules = read::modules(root, sources);
        edges.extend(resolve::edges(&modules));
        files.extend(modules.into_iter().map(|module| module.file));
    }
    let cycles = circles(&edges).into_iter().map(|files| {
        let inside = |edge: &&Edge| files.contains(&edge.from) && files.contains(&edge.to);
        let edges = edges.iter().filter(inside).cloned().collect();
        Cycle { files, edges }
    });
    let cycles = cycles.collect();
    Crate { name: name(folder, manifest), folder: folder.to_owned(), files, edges, cycles }
}

/// The package's name, without the project's prefix.
fn name(folder: &str, manifest: &str) -> String {
    let stated = manifest.lines().find_map(|line| line.strip_prefix("name = \""));
    let package = stated.map(|rest| rest.trim_end_matches('"'));
    let package = package.or_else(|| folder.rsplit('/').next()).unwrap_or(folder);
    package.strip_prefix("meridian-").unwrap_or(package).to_owned()
}

/// `gateway 27, routing 10; 2 or none elsewhere`.
fn largest(crates: &[Crate]) -> String {
    let sized = |one: &Crate| one.cycles.first().map(|cycle| (cycle.files.len(), one.name.clone()));
    let mut large: Vec<_> =
        crates.iter().filter_map(sized).filter(|(size, _)| *size > LIMIT).collect();
    large.sort_by(|a, b| b.cmp(a));
    let mut parts: Vec<_> =
        large.into_iter().map(|(size, name)| format!("{name} {size}")).collect();
    parts.push(format!("{LIMIT} files or none in the {} others", crates.len() - parts.len()));
    parts.join(", ")
}

fn broken(crates: &[Crate], known: &[(&str, usize)]) -> Vec<Broken> {
    let mut found = Vec::new();
    for one in crates {
        let bound = known.iter().find(|(name, _)| one.name == *name);
        let bound = bound.map_or(LIMIT, |(_, bound)| *bound);
        let too_large = one.cycles.iter().filter(|cycle| cycle.files.len() > bound);
        found.extend(too_large.map(|cycle| of(&one.folder, describe(cycle, bound))));
        let size = one.cycles.first().map_or(0, |cycle| cycle.files.len());
        if bound > LIMIT && size <= LIMIT {
            found.push(of(&one.folder, "has no large cycle any more; take its line out of KNOWN"));
        }
    }
    found
}

fn describe(Cycle { files, edges }: &Cycle, bound: usize) -> String {
    let mut text = format!(
        "{} files import each other in a cycle, over {bound}. Move what several of them need into a \
         file that imports none of them, or pass it as an argument; break the import that points up",
        files.len()
    );
    for Edge { from, to, line, name } in edges {
        text += &format!("\n         {from}:{line} imports {name} from {to}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)], known: &[(&str, usize)]) -> Vec<Broken> {
        let mut house = vec![File::of("product/a/Cargo.toml", "")];
        house.extend(
            files.iter().map(|(path, text)| File::of(&format!("product/a/src/{path}"), text)),
        );
        broken(&measure(&house), known)
    }

    const THREE: [(&str, &str); 4] = [
        ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
        ("a.rs", "use crate::b::B;\npub struct A(B);\n"),
        ("b.rs", "pub struct B;\nfn f() { crate::c::run() }\n"),
        ("c.rs", "use super::a;\npub fn run() { a::A::new() }\n"),
    ];

    // The report names each import of the cycle with its place and the remedy.
    #[test]
    fn three_files_in_a_circle_are_found() {
        let found = found(&THREE, &[]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "product/a");
        let lines: Vec<_> = found[0].what.lines().map(str::trim).collect();
        assert!(lines[0].starts_with("3 files import each other in a cycle, over 2. Move"));
        assert_eq!(lines[1], "product/a/src/a.rs:1 imports B from product/a/src/b.rs");
        assert_eq!(lines[2], "product/a/src/b.rs:2 imports run from product/a/src/c.rs");
        assert_eq!(lines[3], "product/a/src/c.rs:2 imports A from product/a/src/a.rs");
    }

    // A type and its `impl` in a second file may import each other.
    #[test]
    fn two_files_may_import_each_other() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\n"),
            ("a.rs", "pub struct A;\nfn f() { crate::b::f() }\n"),
            ("b.rs", "use super::a::A;\npub fn f(a: A) {}\n"),
        ];
        assert_eq!(found(&files, &[]), []);
    }

    // A known cycle may not grow, and its line is removed with it.
    #[test]
    fn a_known_cycle_only_shrinks() {
        assert_eq!(found(&THREE, &[("a", 3)]), []);
        let gone = found(&THREE[..3], &[("a", 3)]);
        assert!(gone[0].what.contains("take its line out of KNOWN"), "{gone:?}");
    }
}
