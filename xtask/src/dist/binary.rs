//! The one build of the programs.
//!
//! For `meridian` it is the command that maturin runs for the wheel, so cargo has nothing left to do
//! there.

use anyhow::ensure;

use super::pgo::Flags;
use super::place::Place;
use super::programs::{BOTH, Program, Programs};
use crate::cmd::{self, cargo};
use crate::house::House;

/// The feature of both packages that gives their libraries the features that they have in tests.
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

    /// The argument of cargo and of maturin that chooses features. The dev profile takes the features
    /// of the tests' build, so only the programs' own crates are compiled for the packages.
    pub(crate) fn features(self) -> String {
        let tests = (self == Profile::Dev).then_some(AS_TESTS);
        format!("--features={}", tests.unwrap_or_default())
    }

    /// Its folder under `target/`.
    pub(super) fn folder(self) -> &'static str {
        match self {
            Profile::Release => "release",
            Profile::Dev => "debug",
        }
    }
}

/// Builds both programs and copies them to where no other build replaces them.
pub(super) fn build(
    house: &House,
    place: &Place,
    profile: Profile,
    rustc_args: &[String],
    flags: Option<&Flags>,
) -> anyhow::Result<Programs> {
    let usual = house.metadata.target_directory.as_std_path().join(profile.folder());
    let built = Programs(flags.map_or(usual, |flags| flags.built(profile)));
    let kept = Programs(place.work.join("bin"));
    for program in &BOTH {
        let Program { package, name, .. } = program;
        let which = ["rustc", "--locked", "--package", package, "--bin", name];
        let features = profile.features();
        let how = ["--profile", profile.name(), &features, "--"];
        let mut args = [&which[..], &how].concat();
        args.extend(rustc_args.iter().map(String::as_str));
        let mut build = cargo(&house.root, &args);
        if let Some(flags) = flags {
            flags.set(&mut build);
        }
        ensure!(cmd::ends_well(build)?, "{name} does not build, see above");
        built.copy_one_to(program, &kept.0)?;
    }
    Ok(kept)
}
