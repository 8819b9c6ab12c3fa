//! The folders of a package: the tarball's differ from Debian's.
//!
//! Man pages and completions come from the binary itself, so they describe the commands it has.

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::archive::set_mode;
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
    /// Where the binary is once the package is installed; the unit names it.
    pub(super) installed: &'static str,
}

/// The path of the binary in `packaging/systemd/meridian.service`.
const IN_UNIT: &str = "/usr/bin/meridian";

impl Layout {
    /// Puts the binary, its pages, its completions and its service into these folders.
    pub(super) fn fill(&self, house: &House, binary: &Path) -> anyhow::Result<()> {
        let program = self.bin.join("meridian");
        copy(binary, &program)?;
        set_mode(&program, 0o755)?;
        self.pages(house, binary)?;
        let unit = house.file("packaging/systemd/meridian.service")?;
        write(&self.units.join("meridian.service"), &unit.replace(IN_UNIT, self.installed))?;
        let users = house.file("packaging/systemd/sysusers.conf")?;
        write(&self.sysusers.join("meridian.conf"), users)
    }

    fn pages(&self, house: &House, binary: &Path) -> anyhow::Result<()> {
        let ask = |args: &[&str]| stdout_of(cmd(&house.root, binary, args));
        let man = self.man.to_str().context("the checkout's path is not text")?;
        ask(&["man", man])?;
        let shells = [
            ("bash", self.bash.join("meridian")),
            ("zsh", self.zsh.join("_meridian")),
            ("fish", self.fish.join("meridian.fish")),
        ];
        for (shell, file) in shells {
            write(&file, &ask(&["completions", shell])?)?;
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
