//! The machines are pure: neither their own code nor a library can bring in the standard library.
//!
//! A machine that could read a clock, open a socket or iterate a randomly seeded map would decide
//! differently in a simulation. `#![no_std]` makes the compiler refuse that in the machine itself.
//! For its dependencies, the rule reads each library as built for the machine alone (cargo tree,
//! normal dependencies, features resolved for that package): its source must be `no_std`, and no
//! feature that switches std on may be enabled. Procedural macros run in the compiler and are left
//! out. `cargo metadata` is not enough, as it shows the features of all crates at once.

use super::{Broken, Rule, of};
use crate::cmd::{cargo, stdout_of};
use crate::house::House;

pub(crate) const RULE: Rule = Rule {
    name: "purity",
    holds: "machines and their libraries do without std",
    run: |house| run(house),
};

/// The project's pure crates.
pub(super) const PURE: [&str; 6] = ["base", "routing", "rivals", "engine", "flow", "fabric"];

fn run(house: &House) -> anyhow::Result<Vec<Broken>> {
    let mut found = Vec::new();
    for name in PURE {
        let package = format!("meridian-{name}");
        if let Some(one) = house.packages().iter().find(|one| one.name.as_str() == package) {
            let path = format!("{}/src/lib.rs", house.folder(one));
            found.extend(of_source(&path, house.text(&path).unwrap_or_default()));
            for library in libraries(house, &package)? {
                found.extend(of_library(&package, &library));
            }
        }
    }
    Ok(found)
}

/// The machine's own attributes.
fn of_source(path: &str, text: &str) -> Vec<Broken> {
    let wanted = ["#![no_std]", "#![deny(missing_docs)]"];
    let missing = wanted.iter().filter(|attribute| !text.lines().any(|line| line == **attribute));
    missing.map(|attribute| of(path, format!("lacks `{attribute}`"))).collect()
}

/// A library in a machine's tree.
struct Library {
    name: String,
    features: Vec<String>,
    /// Its lib.rs.
    source: String,
}

fn of_library(machine: &str, library: &Library) -> Option<Broken> {
    let on = |feature: &str| library.features.iter().any(|one| one == feature);
    let why = match unless(&library.source) {
        None => "which needs std".to_owned(),
        Some(switches) => {
            let mut switches = switches.into_iter().chain(["std", "use_std"]);
            format!("with its feature {}, which brings std", switches.find(|one| on(one))?)
        }
    };
    let remedy = "take it with default-features = false, or do without it";
    Some(of(machine, format!("links {} {why}; {remedy}", library.name)))
}

/// The features that keep a library from being `no_std`; `None` if it never is.
fn unless(source: &str) -> Option<Vec<&str>> {
    for attribute in source.split("#![").skip(1) {
        let attribute = &attribute[..attribute.find("]\n").unwrap_or(attribute.len())];
        if attribute.trim() == "no_std" {
            return Some(vec![]);
        }
        if attribute.starts_with("cfg_attr") && attribute.contains("no_std") {
            return Some(attribute.split('"').skip(1).step_by(2).collect());
        }
    }
    None
}

fn libraries(house: &House, package: &str) -> anyhow::Result<Vec<Library>> {
    let edges = ["--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}|{f}"];
    let args = [&["tree", "--package", package][..], &edges[..]].concat();
    let tree = stdout_of(cargo(&house.root, &args))?;
    let mut found = Vec::new();
    for line in tree.lines() {
        let (id, features) = line.split_once('|').unwrap_or((line, ""));
        let mut words = id.split(' ');
        let (name, version) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        if name.starts_with("meridian-") {
            continue;
        }
        let known = house.metadata.packages.iter().find(|one| {
            one.name.as_str() == name && version.strip_prefix('v') == Some(&one.version.to_string())
        });
        let target = known.and_then(|one| one.targets.iter().find(|target| target.is_lib()));
        let path = target.map(|target| &target.src_path);
        let path = path.ok_or_else(|| anyhow::anyhow!("{package}: no source of {id}"))?;
        found.push(Library {
            name: name.to_owned(),
            features: features.split(',').map(str::to_owned).collect(),
            source: std::fs::read_to_string(path)?,
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(source: &str, features: &[&str]) -> Option<Broken> {
        let features = features.iter().map(|one| (*one).to_owned()).collect();
        of_library(
            "meridian-routing",
            &Library { name: "a".into(), features, source: source.into() },
        )
    }

    // A library that never declares `no_std` brings in std.
    #[test]
    fn a_std_library_is_found() {
        let found = judged("//! A.\nuse std::fs;\n", &["default"]).unwrap();
        assert_eq!(found.place, "meridian-routing");
        assert!(found.what.starts_with("links a which needs std;"), "{}", found.what);
    }

    // A library with optional std is judged by the features that the machine enables.
    #[test]
    fn a_feature_that_brings_std_is_found() {
        let source = "#![doc = \"a\"]\n#![cfg_attr(not(any(feature = \"os\", test)), no_std)]\n";
        assert!(judged(source, &["os"]).unwrap().what.contains("its feature os"));
        assert_eq!(judged(source, &["alloc"]), None);
        assert!(judged("#![no_std]\n", &["std"]).is_some());
        assert_eq!(judged("#![no_std]\n", &["default"]), None);
    }

    // A machine must refuse std and undocumented items itself.
    #[test]
    fn a_machine_without_its_attributes_is_found() {
        assert_eq!(of_source("lib.rs", "#![no_std]\n")[0].what, "lacks `#![deny(missing_docs)]`");
        assert_eq!(of_source("lib.rs", "//! `#![no_std]`\n").len(), 2);
    }
}
