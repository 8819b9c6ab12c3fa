//! The wheel of the KV gate: the Python package in `flow/python/` with the flow scheduler's library inside.
//!
//! setuptools packs it. The library is linked against the same old glibc as the programs, and its
//! wheel carries that version in its name.

use std::path::{Path, PathBuf};

use anyhow::ensure;

use super::binary::Profile;
use super::layout::copy;
use super::place::Place;
use super::{glibc, wheel};
use crate::cmd::{self, cargo, cmd, stdout_of};
use crate::house::House;

const PROJECT: &str = "flow/python";
const MODULES: &str = "meridian_flow";
/// The library's name in the package, where its modules look for it.
const INSIDE: &str = "libmeridian_flow.so";

/// Makes the wheel; its path.
pub(super) fn make(
    house: &House,
    place: &Place,
    profile: Profile,
    rustc_args: &[String],
) -> anyhow::Result<PathBuf> {
    let library = build(house, profile, rustc_args)?;
    glibc::ensure_runs_on(house, &library)?;
    let folder = place.stage("flow-wheel")?;
    let (from, to) = (house.root.join(PROJECT), folder.join(MODULES));
    for name in ["pyproject.toml", "README.md"] {
        copy(&from.join(name), &folder.join(name))?;
    }
    copy(&house.root.join("LICENSE"), &folder.join("LICENSE"))?;
    for module in modules(&from.join(MODULES))? {
        copy(&from.join(MODULES).join(&module), &to.join(&module))?;
    }
    copy(&library, &to.join(INSIDE))?;
    let glibc = house.pinned("DIST_GLIBC")?.replace('.', "_");
    let mut pack = cmd(&folder, wheel::venv(house)?.join("python"), &["-m", "pip", "wheel"]);
    pack.args(["--quiet", "--no-deps", "--no-index", "--no-build-isolation"]);
    pack.arg(format!("-C--build-option=--plat-name=manylinux_{glibc}_x86_64"));
    pack.arg("--wheel-dir").arg(&place.out).arg(".");
    pack.env("SOURCE_DATE_EPOCH", place.epoch.to_string());
    ensure!(cmd::ends_well(pack)?, "setuptools made no wheel, see above");
    wheel::find(&place.out, MODULES)
}

/// Builds the library and strips it.
fn build(house: &House, profile: Profile, rustc_args: &[String]) -> anyhow::Result<PathBuf> {
    let which = ["rustc", "--locked", "--package", "meridian-flow-abi", "--lib"];
    let how = ["--crate-type", "cdylib", "--profile", profile.name(), "--"];
    let mut args = [&which[..], &how].concat();
    args.extend(rustc_args.iter().map(String::as_str));
    ensure!(cmd::ends_well(cargo(&house.root, &args))?, "the library does not build, see above");
    let target = house.metadata.target_directory.as_std_path();
    Ok(target.join(profile.folder()).join("libmeridian_flow_abi.so"))
}

/// The package's files that git knows.
fn modules(folder: &Path) -> anyhow::Result<Vec<String>> {
    let files = stdout_of(cmd(folder, "git", &["ls-files", "--", "."]))?;
    let files: Vec<String> = files.lines().map(str::to_owned).collect();
    ensure!(!files.is_empty(), "{} has no files", folder.display());
    Ok(files)
}
