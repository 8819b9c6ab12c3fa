//! The crates of flow and lab that a change touches.
//!
//! A crate is touched by a changed file
//!
//! - in its folder, or one that its sources name outside of the folder;
//! - of a crate that it depends on, directly or not. A crate's dependencies for its own tests count,
//!   those of its dependencies' tests do not.
//!
//! Tests and documents of a crate touch that crate alone, as nothing else is compiled from them. A
//! file that decides how everything is built or tested touches every crate.

use std::collections::BTreeSet;

use crate::house::in_a_tree;

/// A crate of the workspace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// From the root, without a slash at the end.
    pub(crate) folder: String,
    /// The workspace's crates that it is built from.
    pub(crate) needs: Vec<String>,
    /// Those that only its tests are built from.
    pub(crate) tests_need: Vec<String>,
    /// Files and folders outside of its folder that its sources name, from the root. The root itself,
    /// as an empty path, stands for all files that are in no tree.
    pub(crate) reads: Vec<String>,
}

/// Why a crate is touched.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Touch {
    /// The changed file.
    pub(crate) path: String,
    /// The crate that the file belongs to, where it is another one.
    pub(crate) through: Option<String>,
}

/// Files that every test depends on. A name that ends with a slash is a folder.
const EVERYTHING: [&str; 7] =
    ["Cargo.lock", "Cargo.toml", "versions.env", "x", ".cargo/", ".ci/", "xtask/"];
/// Of those, the ones that no test of a crate depends on: the house rules run in every lane, the
/// packages have a part of their own, and the base is the result of a run.
const BUT: [&str; 7] = [
    ".ci/all-green",
    "xtask/src/check.rs",
    "xtask/src/check/",
    "xtask/src/dist.rs",
    "xtask/src/dist/",
    "xtask/src/test/dist.rs",
    "xtask/src/test/dist/",
];
/// Files that the part `dist` depends on, apart from the libraries in the packages.
const PACKAGES: [&str; 11] = [
    "packaging/",
    "xtask/src/dist.rs",
    "xtask/src/dist/",
    "xtask/src/test/dist.rs",
    "xtask/src/test/dist/",
    "lab/cli/Cargo.toml",
    "flow/flow-abi/Cargo.toml",
    "flow/python/",
    "docs/quickstart.md",
    "examples/gateway.yaml",
    "versions.env",
];

/// The first changed file that every test depends on.
pub(crate) fn of_everything(changed: &[String]) -> Option<&str> {
    first(changed, |path| is_in(path, &EVERYTHING) && !is_in(path, &BUT))
}

/// The first changed file that packages are made from, or tested by.
pub(crate) fn of_packages(changed: &[String]) -> Option<&str> {
    first(changed, |path| is_in(path, &PACKAGES))
}

/// For each crate the reason why it is touched, if it is.
pub(crate) fn touched(nodes: &[Node], changed: &[String]) -> Vec<Option<Touch>> {
    let touch = |node: &Node| {
        let own = changed.iter().find(|path| node.has(path) || node.reads(path));
        own.map(|path| Touch { path: path.clone(), through: None }).or_else(|| {
            let below = below(nodes, node);
            below.into_iter().find_map(|lower| {
                let path = changed.iter().find(|path| lower.is_built_from(path))?;
                Some(Touch { path: path.clone(), through: Some(lower.name.clone()) })
            })
        })
    };
    nodes.iter().map(touch).collect()
}

/// The crates that a crate and its tests are built from, the nearest first.
fn below<'a>(nodes: &'a [Node], node: &'a Node) -> Vec<&'a Node> {
    let mut seen = BTreeSet::from([node.name.as_str()]);
    let mut next: Vec<&str> =
        node.needs.iter().chain(&node.tests_need).map(String::as_str).collect();
    let mut found = Vec::new();
    while !next.is_empty() {
        let new: Vec<&Node> = next
            .into_iter()
            .filter(|name| seen.insert(name))
            .filter_map(|name| nodes.iter().find(|one| one.name == name))
            .collect();
        next = new.iter().flat_map(|one| one.needs.iter().map(String::as_str)).collect();
        found.extend(new);
    }
    found
}

impl Node {
    fn has(&self, path: &str) -> bool {
        is_at(path, &format!("{}/", self.folder))
    }

    fn reads(&self, path: &str) -> bool {
        self.reads.iter().any(|one| match one.as_str() {
            "" => !in_a_tree(path),
            one => path == one || is_at(path, &format!("{one}/")),
        })
    }

    /// Whether the crate's library may be compiled from the file.
    fn is_built_from(&self, path: &str) -> bool {
        (self.has(path) || self.reads(path)) && !for_tests(path)
    }
}

/// A test, an example or a document.
fn for_tests(path: &str) -> bool {
    const PARTS: [&str; 4] = ["tests", "tests.rs", "examples", "benches"];
    let in_crate = in_a_tree(path) && path.split('/').skip(2).any(|part| PARTS.contains(&part));
    path.starts_with("docs/") || path.ends_with(".md") || in_crate
}

fn first(changed: &[String], matches: impl Fn(&str) -> bool) -> Option<&str> {
    changed.iter().map(String::as_str).find(|path| matches(path))
}

fn is_in(path: &str, places: &[&str]) -> bool {
    places.iter().any(|place| is_at(path, place))
}

/// Whether a path is this one, or in this folder if it ends with a slash.
fn is_at(path: &str, place: &str) -> bool {
    path == place || (place.ends_with('/') && path.starts_with(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(folder: &str, needs: &[&str], tests_need: &[&str], reads: &[&str]) -> Node {
        let own = |list: &[&str]| list.iter().map(|&one| one.to_owned()).collect();
        let name = folder.rsplit('/').next().unwrap_or_default().to_owned();
        let (needs, tests_need, reads) = (own(needs), own(tests_need), own(reads));
        Node { name, folder: folder.to_owned(), needs, tests_need, reads }
    }

    fn workspace() -> Vec<Node> {
        vec![
            node("product/base", &[], &[], &["docs/units.md"]),
            node("product/gateway", &["base"], &["mock"], &[]),
            node("product/mock", &[], &[], &[]),
            node("lab/sim", &["base"], &[], &["experiments"]),
            node("lab/papers", &["sim"], &["gateway"], &["examples/a.yaml"]),
            node("lab/cli", &["papers"], &[], &[""]),
        ]
    }

    /// The touched crates, with the crate of the changed file.
    fn of(changed: &[&str]) -> Vec<(String, Option<String>)> {
        let changed: Vec<String> = changed.iter().map(|&path| path.to_owned()).collect();
        let nodes = workspace();
        let reasons = touched(&nodes, &changed).into_iter().zip(&nodes);
        reasons.filter_map(|(touch, node)| Some((node.name.clone(), touch?.through))).collect()
    }

    fn names(changed: &[&str]) -> Vec<String> {
        of(changed).into_iter().map(|(name, _)| name).collect()
    }

    // A change goes up through all crates that are built from the changed one.
    #[test]
    fn a_change_touches_all_crates_above() {
        let above = ["base", "gateway", "sim", "papers", "cli"];
        assert_eq!(names(&["product/base/src/rng.rs"]), above);
        let through = |name: &str, lower: Option<&str>| (name.to_owned(), lower.map(str::to_owned));
        let sim =
            [through("sim", None), through("papers", Some("sim")), through("cli", Some("sim"))];
        assert_eq!(of(&["lab/sim/Cargo.toml"]), sim);
    }

    // The simulator does not run for a change of the gateway. A crate whose tests have a gateway runs,
    // and the crates above do not.
    #[test]
    fn dependencies_of_tests_go_up_one_step() {
        assert_eq!(names(&["product/gateway/src/lib.rs"]), ["gateway", "papers"]);
        assert_eq!(names(&["product/mock/src/lib.rs"]), ["gateway", "mock"]);
    }

    // Tests, examples and documents are compiled into no other crate.
    #[test]
    fn tests_and_documents_touch_their_crate_alone() {
        let changed = ["product/base/tests/all.rs", "product/base/src/rng/tests.rs"];
        assert_eq!(names(&changed), ["base"]);
        assert_eq!(names(&["product/base/examples/draw.rs"]), ["base"]);
        assert_eq!(names(&["docs/units.md"]), ["base", "cli"]);
        assert_eq!(names(&["README.md"]), ["cli"]);
    }

    // A file outside of the trees belongs to the crates that name it, and goes up from there. A name
    // that begins in the same way is another one.
    #[test]
    fn files_outside_belong_to_the_crates_that_name_them() {
        assert_eq!(names(&["experiments/hard.yaml"]), ["sim", "papers", "cli"]);
        assert_eq!(names(&["examples/a.yaml"]), ["papers", "cli"]);
        assert_eq!(names(&["examples/a.yaml.old"]), ["cli"]);
        assert_eq!(names(&["lab/simulated/src/lib.rs"]), Vec::<String>::new());
        assert_eq!(names(&[]), Vec::<String>::new());
    }

    // The lock file decides for all; the house rules, the packages and the base do not.
    #[test]
    fn some_files_touch_everything() {
        let of = |path: &str| of_everything(&[path.to_owned()]).is_some();
        for path in ["Cargo.lock", "x", ".ci/run", "xtask/src/test.rs", "versions.env"] {
            assert!(of(path), "{path}");
        }
        let others = [".ci/all-green", "xtask/src/check/size.rs", "xtask/src/test/dist/deb.rs"];
        for path in others.into_iter().chain(["xtask.md", "docs/x", "product/base/Cargo.toml"]) {
            assert!(!of(path), "{path}");
        }
        let packages = |path: &str| of_packages(&[path.to_owned()]).is_some();
        assert!(packages("packaging/deb/meridian.service") && packages("lab/cli/Cargo.toml"));
        assert!(!packages("lab/cli/src/main.rs"));
    }
}
