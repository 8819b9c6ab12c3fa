//! The oldest glibc that docs/install.md promises, with its real files.

use std::path::PathBuf;

use super::root;
use crate::dist::programs::BOTH;
use crate::dist::{Made, debs, glibc};
use crate::house::House;

// The programs need no newer symbols than promised, and they serve where the dynamic loader and all
// libraries are Debian 11's.
pub(super) fn serves_with_debian_11(house: &House, made: &Made) -> anyhow::Result<()> {
    for program in &BOTH {
        glibc::ensure_runs_on(house, &made.programs.path(program))?;
    }
    let root = debian_11(house, made, "test-oldest")?;
    made.programs.copy_to(&root.join("usr/bin"))?;
    let installed = root::enter(&root, None)?;
    installed.are_version(&made.place.version)?;
    installed.serves(house.file("packaging/gateway.yaml")?)
}

/// A new root that has Debian 11's C library and nothing else.
pub(super) fn debian_11(house: &House, made: &Made, name: &str) -> anyhow::Result<PathBuf> {
    let root = made.place.stage(name)?;
    for deb in debs::fetch(house, &made.place, "DIST_GLIBC_DEBS")? {
        debs::unpack(&deb, &root)?;
    }
    Ok(root)
}
