//! The packages that tests install are built with the libraries of the tests.
//!
//! Cargo compiles a library once for each set of features. Tests turn on more features than the
//! programs do, in tokio above all, so a build of a program alone would compile tokio and
//! everything above it a second time. The feature `as-tests` of meridian and of meridian-lab
//! turns on the same features. This rule compares each program's build with that of the tests, as
//! `cargo tree` resolves them, and names the libraries that differ.

use std::collections::BTreeSet;

use super::{Broken, Rule, of};
use crate::cmd::{cargo, stdout_of};
use crate::dist::binary::{AS_TESTS, Profile};
use crate::dist::programs::BOTH;
use crate::house::House;

pub(crate) const RULE: Rule = Rule {
    name: "features",
    holds: "packages for tests need no library built again",
    run: |house| run(house),
};

fn run(house: &House) -> anyhow::Result<Vec<Broken>> {
    let tests = tree(house, &["--workspace", "--edges", "normal,build,dev"])?;
    let mut found = Vec::new();
    for program in &BOTH {
        let features = Profile::Dev.features();
        let of_what = ["--package", program.package, &features];
        let one = tree(house, &[&of_what[..], &["--edges", "normal,build"]].concat())?;
        found.extend(broken(&tests, program.package, &one));
    }
    Ok(found)
}

/// Every crate of a build with the features that it is compiled with.
fn tree(house: &House, of_what: &[&str]) -> anyhow::Result<String> {
    let form = ["--locked", "--no-dedupe", "--prefix", "none", "--format", "{p} with {f}"];
    stdout_of(cargo(&house.root, &[&["tree"], of_what, &form[..]].concat()))
}

fn broken(tests: &str, own: &str, one: &str) -> Vec<Broken> {
    let built: BTreeSet<&str> = tests.lines().collect();
    let again: BTreeSet<&str> = one.lines().filter(|line| !built.contains(line)).collect();
    let again = again.into_iter().filter(|line| line.split(' ').next() != Some(own));
    let remedy =
        "tests have other features; name the test library that turns them on in the feature";
    again.map(|line| of(AS_TESTS, format!("{line}: {remedy} of {own}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // A library with other features than in the tests is named; the program's own crate, which is
    // always compiled again, is not.
    #[test]
    fn a_library_with_other_features_is_named() {
        let tests = "tokio v1.2.3 with net,test-util\nmeridian-cli v0.1.0 (/here) with etcd\n";
        let one = "meridian-cli v0.1.0 (/here) with as-tests,etcd\ntokio v1.2.3 with net\n";
        let found = broken(tests, "meridian-cli", one);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].what.starts_with("tokio v1.2.3 with net: "), "{found:?}");
        assert_eq!(broken(tests, "meridian-cli", tests), []);
        assert_eq!(broken(tests, "meridian-lab", one).len(), 2);
    }
}
