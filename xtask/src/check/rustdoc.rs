//! The API documentation builds, including private items, so every link in a comment resolves.

use super::{Broken, Rule, of};
use crate::cmd::{cargo, ends_well};
use crate::house::House;

pub(crate) const RULE: Rule = Rule {
    name: "rustdoc",
    holds: "the API documentation has no warning",
    run: |house| run(house),
};

fn run(house: &House) -> anyhow::Result<Vec<Broken>> {
    let args = ["--no-deps", "--document-private-items", "--keep-going", "--quiet"];
    let mut doc = cargo(&house.root, &[&["doc", "--workspace"][..], &args].concat());
    // This build resolves links to private items, as a reader of the code needs them.
    doc.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links");
    let good = ends_well(doc)?;
    Ok(if good { vec![] } else { vec![of("workspace", "has the warnings of rustdoc above")] })
}
