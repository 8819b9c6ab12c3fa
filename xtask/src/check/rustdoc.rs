//! The API documentation builds: every link in a doc comment leads somewhere.

use super::{Broken, Rule, of};
use crate::cmd::{cargo, ends_well};
use crate::house::House;

pub(crate) const RULE: Rule = Rule {
    name: "rustdoc",
    holds: "the API documentation has no warning",
    run: |house| run(house),
};

fn run(house: &House) -> anyhow::Result<Vec<Broken>> {
    let mut doc = cargo(&house.root, &["doc", "--workspace", "--no-deps", "--quiet"]);
    doc.env("RUSTDOCFLAGS", "-D warnings");
    let good = ends_well(doc)?;
    Ok(if good { vec![] } else { vec![of("workspace", "has the warnings of rustdoc above")] })
}
