//! The two programs of the packages, beside each other.
//!
//! `meridian` runs the commands of the laboratory by `meridian-lab` in its own folder, so every
//! package has both in one folder.

use std::path::{Path, PathBuf};

use super::archive::set_mode;
use super::layout::copy;

/// A program, and the package of the workspace that it is built from.
pub(crate) struct Program {
    pub(crate) package: &'static str,
    pub(crate) name: &'static str,
}

pub(crate) const MERIDIAN: Program = Program { package: "meridian", name: "meridian" };
pub(crate) const LAB: Program = Program { package: "meridian-lab", name: "meridian-lab" };
pub(crate) const BOTH: [Program; 2] = [MERIDIAN, LAB];

/// A folder that has both.
pub(crate) struct Programs(pub(super) PathBuf);

impl Programs {
    pub(crate) fn path(&self, program: &Program) -> PathBuf {
        self.0.join(program.name)
    }

    /// Puts both into a folder.
    pub(crate) fn copy_to(&self, folder: &Path) -> anyhow::Result<()> {
        BOTH.iter().try_for_each(|program| self.copy_one_to(program, folder))
    }

    pub(crate) fn copy_one_to(&self, program: &Program, folder: &Path) -> anyhow::Result<()> {
        let to = folder.join(program.name);
        copy(&self.path(program), &to)?;
        set_mode(&to, 0o755)
    }
}
