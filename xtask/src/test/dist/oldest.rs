//! The oldest glibc that docs/install.md promises, with its real files.

use std::path::PathBuf;

use super::root;
use crate::dist::{Made, archive, debs, glibc};
use crate::house::House;

// The binary needs no newer symbols than promised, and it serves where the dynamic loader and all
// libraries are Debian 11's.
pub(super) fn serves_with_debian_11(house: &House, made: &Made) -> anyhow::Result<()> {
    glibc::ensure_runs_on(house, &made.binary)?;
    let root = debian_11(house, made, "test-oldest")?;
    let program = root.join("usr/bin/meridian");
    std::fs::create_dir_all(root.join("usr/bin"))?;
    std::fs::copy(&made.binary, &program)?;
    archive::set_mode(&program, 0o755)?;
    let installed = root::enter(&root, None)?;
    installed.is_version(&made.place.version)?;
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
