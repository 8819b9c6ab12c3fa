//! Clippy and the compiler report nothing, tests included, about the crates of the run.

use super::{Broken, Rule, of};
use crate::cmd::{cargo, ends_well};
use crate::house::House;

pub(crate) const RULE: Rule =
    Rule { name: "lints", holds: "clippy and rustc have no warning", run: |house| run(house) };

fn run(house: &House) -> anyhow::Result<Vec<Broken>> {
    let args = ["--all-targets", "--keep-going", "--quiet"];
    let args = [&["clippy"], &house.scope.args()[..], &args, &["--", "-D", "warnings"]].concat();
    let good = ends_well(cargo(&house.root, &args))?;
    Ok(if good { vec![] } else { vec![of("workspace", "has the warnings above")] })
}
