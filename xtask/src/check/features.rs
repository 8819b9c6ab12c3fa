//! The packages that tests install are built with the libraries of the tests.
//!
//! Cargo compiles a library once for each set of features. Tests turn on more features than the
//! binary does, in tokio above all, so a build of the binary alone would compile tokio and
//! everything above it a second time. The feature `as-tests` of meridian-cli turns on the same
//! features. This rule compares both builds as `cargo tree` resolves them and names the libraries
//! that differ.

use std::collections::BTreeSet;

use super::{Broken, Rule, of};
use crate::cmd::{cargo, stdout_of};
use crate::dist::binary::AS_TESTS;
use crate::house::House;

pub(crate) const RULE: Rule = Rule {
    name: "features",
    holds: "packages for tests need no library built again",
    run: |house| run(house),
};

const CLI: &str = "meridian-cli";

fn run(house: &House) -> anyhow::Result<Vec<Broken>> {
    let tests = tree(house, &["--workspace", "--edges", "normal,build,dev"])?;
    let one = ["--package", CLI, "--features", AS_TESTS, "--edges", "normal,build"];
    Ok(broken(&tests, &tree(house, &one)?))
}

/// Every crate of a build with the features that it is compiled with.
fn tree(house: &House, of_what: &[&str]) -> anyhow::Result<String> {
    let form = ["--locked", "--no-dedupe", "--prefix", "none", "--format", "{p} with {f}"];
    stdout_of(cargo(&house.root, &[&["tree"], of_what, &form[..]].concat()))
}

fn broken(tests: &str, packages: &str) -> Vec<Broken> {
    let built: BTreeSet<&str> = tests.lines().collect();
    let again: BTreeSet<&str> = packages.lines().filter(|line| !built.contains(line)).collect();
    let again = again.into_iter().filter(|line| line.split(' ').next() != Some(CLI));
    let remedy = "tests have other features; name the test library that turns them on in \
                  the feature, in product/cli/Cargo.toml";
    again.map(|line| of(AS_TESTS, format!("{line}: {remedy}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // A library with other features than in the tests is named; the binary's own crate, which is
    // always compiled again, is not.
    #[test]
    fn a_library_with_other_features_is_named() {
        let tests = "tokio v1.2.3 with net,test-util\nmeridian-cli v0.1.0 (/here) with lab\n";
        let packages = "meridian-cli v0.1.0 (/here) with as-tests,lab\ntokio v1.2.3 with net\n";
        let found = broken(tests, packages);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].what.starts_with("tokio v1.2.3 with net: "), "{found:?}");
        assert_eq!(broken(tests, tests), []);
    }
}
