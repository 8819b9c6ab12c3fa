//! The programs under test. `meridian` is built beside `meridian-lab`, and runs it.

const LAB: &str = env!("CARGO_BIN_EXE_meridian-lab");

/// `meridian`. `./x test` builds it with the tests; `cargo test --package meridian-lab` alone does not.
pub(crate) const MERIDIAN: &str = LAB.split_at(LAB.len() - "-lab".len()).0;
