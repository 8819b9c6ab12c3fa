//! The one build of the binary.
//!
//! It is the command that maturin runs for the wheel, so cargo has nothing left to do there.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};

use super::pgo::Flags;
use super::place::Place;
use crate::cmd::{self, cargo};
use crate::house::House;

/// The feature of meridian-cli that gives its libraries the features that they have in tests.
pub(crate) const AS_TESTS: &str = "as-tests";

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

    /// Arguments of cargo and of maturin that choose features. The dev profile takes the features
    /// of the tests' build, so only the binary's own crate is compiled for the packages.
    pub(super) fn features(self) -> &'static [&'static str] {
        match self {
            Profile::Release => &[],
            Profile::Dev => &["--features", AS_TESTS],
        }
    }

    /// Its folder under `target/`.
    pub(super) fn folder(self) -> &'static str {
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
    flags: Option<&Flags>,
) -> anyhow::Result<PathBuf> {
    let which = ["rustc", "--locked", "--package", "meridian-cli", "--bin", "meridian"];
    let how = [&["--profile", profile.name()], profile.features(), &["--"]].concat();
    let mut args = [&which[..], &how].concat();
    args.extend(rustc_args.iter().map(String::as_str));
    let mut build = cargo(&house.root, &args);
    if let Some(flags) = flags {
        flags.set(&mut build);
    }
    ensure!(cmd::ends_well(build)?, "the binary does not build, see above");
    let usual = house.metadata.target_directory.as_std_path().join(profile.folder());
    let folder = flags.map_or(usual, |flags| flags.built(profile));
    let (built, kept) = (folder.join("meridian"), place.work.join("meridian"));
    std::fs::copy(&built, &kept).with_context(|| format!("cannot copy {}", built.display()))?;
    Ok(kept)
}
