//! The API documentation builds, that of private items too: every link in a comment leads somewhere.

use super::{Broken, Rule, of};
use crate::cmd::{cargo, ends_well};
use crate::house::House;

pub(crate) const RULE: Rule = Rule {
    name: "rustdoc",
    holds: "the API documentation has no warning",
    run: |house| run(house),
};

fn run(house: &House) -> anyhow::Result<Vec<Broken>> {
    let args = ["doc", "--workspace", "--no-deps", "--document-private-items", "--keep-going"];
    let mut doc = cargo(&house.root, &[&args[..], &["--quiet"]].concat());
    // Links to private items resolve in what this builds, which is what readers of the code build.
    doc.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links");
    let good = ends_well(doc)?;
    Ok(if good { vec![] } else { vec![of("workspace", "has the warnings of rustdoc above")] })
}
