//! The folders of a package: the tarball's differ from Debian's.
//!
//! Man pages and completions come from the programs themselves, so they describe the commands that
//! each has. Those of `meridian` include the commands that `meridian-lab` runs for it.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::programs::{BOTH, Programs};
use crate::cmd::{cmd, stdout_of};
use crate::house::House;

/// Folders of one package.
pub(super) struct Layout {
    pub(super) bin: PathBuf,
    pub(super) man: PathBuf,
    pub(super) bash: PathBuf,
    pub(super) zsh: PathBuf,
    pub(super) fish: PathBuf,
    pub(super) units: PathBuf,
    pub(super) sysusers: PathBuf,
    /// Where `meridian` is once the package is installed; the unit names it.
    pub(super) installed: &'static str,
}

/// The path of `meridian` in `packaging/systemd/meridian.service`.
const IN_UNIT: &str = "/usr/bin/meridian";

impl Layout {
    /// Puts the programs, their pages, their completions and the service into these folders.
    pub(super) fn fill(&self, house: &House, programs: &Programs) -> anyhow::Result<()> {
        programs.copy_to(&self.bin)?;
        self.pages(house, programs)?;
        let unit = house.file("packaging/systemd/meridian.service")?;
        write(&self.units.join("meridian.service"), &unit.replace(IN_UNIT, self.installed))?;
        let users = house.file("packaging/systemd/sysusers.conf")?;
        write(&self.sysusers.join("meridian.conf"), users)
    }

    fn pages(&self, house: &House, programs: &Programs) -> anyhow::Result<()> {
        let man = self.man.to_str().context("the checkout's path is not text")?;
        for program in &BOTH {
            let (path, name) = (programs.path(program), program.name);
            let ask = |args: &[&str]| stdout_of(cmd(&house.root, &path, args));
            ask(&["man", man])?;
            let shells = [
                ("bash", self.bash.join(name)),
                ("zsh", self.zsh.join(format!("_{name}"))),
                ("fish", self.fish.join(format!("{name}.fish"))),
            ];
            for (shell, file) in shells {
                write(&file, &ask(&["completions", shell])?)?;
            }
        }
        Ok(())
    }
}

/// Writes a file and the folders above it.
pub(super) fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    make_folder_of(file)?;
    std::fs::write(file, text).with_context(|| file.display().to_string())
}

/// Copies a file and makes the folders above it.
pub(super) fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    make_folder_of(to)?;
    let place = || format!("cannot copy {} to {}", from.display(), to.display());
    std::fs::copy(from, to).map(drop).with_context(place)
}

fn make_folder_of(file: &Path) -> anyhow::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())
}
