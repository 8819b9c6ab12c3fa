//! The code is formatted.

use super::{Broken, Rule, of};
use crate::cmd::{cargo, ends_well};
use crate::house::House;

pub(crate) const RULE: Rule =
    Rule { name: "format", holds: "rustfmt has nothing to change", run: |house| run(house) };

fn run(house: &House) -> anyhow::Result<Vec<Broken>> {
    let good = ends_well(cargo(&house.root, &["fmt", "--all", "--check"]))?;
    Ok(if good { vec![] } else { vec![of("workspace", "not formatted; run ./x fmt")] })
}
