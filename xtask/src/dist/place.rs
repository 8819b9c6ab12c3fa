//! The folders where packages are made, and the version and time that all packages have.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::cmd::{cmd, stdout_of};
use crate::house::House;

pub(crate) struct Place {
    /// The finished packages.
    pub(crate) out: PathBuf,
    /// Downloads, and packages while they are put together.
    pub(crate) work: PathBuf,
    pub(crate) version: String,
    /// Seconds since 1970. Files in packages carry this time.
    pub(crate) epoch: u64,
}

/// The earliest time that a zip archive can hold: 1980-01-01.
const EARLIEST: u64 = 315_532_800;

impl Place {
    pub(crate) fn open(house: &House) -> anyhow::Result<Place> {
        let target = house.metadata.target_directory.as_std_path();
        let packages = house.packages();
        let cli = packages.into_iter().find(|one| one.name.as_str() == "meridian");
        let version = cli.context("the workspace has no package meridian")?.version.to_string();
        let (out, work) = (target.join("dist"), target.join("dist-work"));
        Ok(Place { out, work, version, epoch: epoch(&house.root)? })
    }

    /// Removes the packages of an earlier run, so that none of another commit is among the new.
    pub(crate) fn clear(&self) -> anyhow::Result<()> {
        fresh(&self.out)?;
        std::fs::create_dir_all(&self.work).with_context(|| self.work.display().to_string())
    }

    /// An empty folder to put a package together in.
    pub(crate) fn stage(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.work.join("stage").join(name);
        fresh(&folder)?;
        Ok(folder)
    }
}

/// Makes an empty folder, and deletes one that is there.
pub(crate) fn fresh(folder: &Path) -> anyhow::Result<()> {
    let place = || folder.display().to_string();
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(place)?;
    }
    std::fs::create_dir_all(folder).with_context(place)
}

/// `SOURCE_DATE_EPOCH` where it is set, else the time of the commit, else the earliest.
fn epoch(root: &Path) -> anyhow::Result<u64> {
    if let Ok(given) = std::env::var("SOURCE_DATE_EPOCH") {
        let remedy = || format!("SOURCE_DATE_EPOCH={given} is not a number of seconds; unset it");
        return given.parse().with_context(remedy);
    }
    let commit = stdout_of(cmd(root, "git", &["log", "-1", "--format=%ct"]));
    Ok(commit.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(EARLIEST))
}
