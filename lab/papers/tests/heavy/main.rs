//! Experiments whose small run takes long, and the planner's promises beside simulations: minutes of
//! work, so `./x test --all` runs it.

#![allow(clippy::unwrap_used, reason = "an unwrap that fails is a test that fails")]

mod aggregated;
#[path = "../goldens/mod.rs"]
mod goldens;
mod judged;

// Every slow experiment runs, breaks no invariant, and reproduces its recorded tables.
#[test]
fn tables_are_as_before() {
    goldens::are_as_before(true);
}
