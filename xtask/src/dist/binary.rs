//! The one build of the binary.
//!
//! It is the command that maturin runs for the wheel, so cargo has nothing left to do there.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::place::Place;
use crate::cmd::{self, cargo};
use crate::house::House;

#[derive(Clone, Copy, Debug, Default, PartialEq, clap::ValueEnum)]
pub(crate) enum Profile {
    #[default]
    Release,
    Dev,
}

impl Profile {
    pub(super) fn name(self) -> &'static str {
        match self {
            Profile::Release => "release",
            Profile::Dev => "dev",
        }
    }

    /// Its folder under `target/`.
    fn folder(self) -> &'static str {
        match self {
            Profile::Release => "release",
            Profile::Dev => "debug",
        }
    }
}

/// Builds the binary and copies it to where no other build replaces it.
pub(super) fn build(
    house: &House,
    place: &Place,
    profile: Profile,
    rustc_args: &[String],
) -> anyhow::Result<PathBuf> {
    let which = ["rustc", "--locked", "--package", "meridian-cli", "--bin", "meridian"];
    let mut args = [&which[..], &["--profile", profile.name(), "--"]].concat();
    args.extend(rustc_args.iter().map(String::as_str));
    ensure!(cmd::ends_well(cargo(&house.root, &args))?, "the binary does not build, see above");
    let target = house.metadata.target_directory.as_std_path();
    let (built, kept) = (built(target, profile), place.work.join("meridian"));
    std::fs::copy(&built, &kept).with_context(|| format!("cannot copy {}", built.display()))?;
    Ok(kept)
}

fn built(target: &Path, profile: Profile) -> PathBuf {
    target.join(profile.folder()).join("meridian")
}
