//! Archives and sums that depend on nothing but the files' contents.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::place::Place;
use crate::cmd::{cmd, stdout_of};

/// Packs the folder's contents: in order, owned by root, with the time of the commit.
pub(crate) fn tar(place: &Place, folder: &Path, to: &Path) -> anyhow::Result<()> {
    settle_modes(folder)?;
    let time = format!("--mtime=@{}", place.epoch);
    let order = ["--create", "--format=gnu", "--sort=name", &time];
    let owner = ["--owner=0", "--group=0", "--numeric-owner"];
    let mut tar = cmd(folder, "tar", &[&order[..], &owner[..]].concat());
    tar.arg("--file").arg(to).args(names(folder)?);
    stdout_of(tar).map(drop)
}

/// Compresses the file in place, without its name and time; the new path.
pub(crate) fn gzip(file: &Path) -> anyhow::Result<PathBuf> {
    let mut gzip = cmd(Path::new("."), "gzip", &["--no-name", "--best", "--force"]);
    gzip.arg(file);
    stdout_of(gzip)?;
    let mut name = file.as_os_str().to_owned();
    name.push(".gz");
    Ok(name.into())
}

/// The SHA-256 of a file, in hex.
pub(crate) fn sha256(file: &Path) -> anyhow::Result<String> {
    let mut sum = cmd(Path::new("."), "sha256sum", &["--binary"]);
    sum.arg(file);
    let printed = stdout_of(sum)?;
    let hex = printed.trim_start_matches('\\').get(..64).map(str::to_owned);
    hex.with_context(|| format!("sha256sum printed {printed}"))
}

/// Sets the modes that files and folders have in a package, since the umask differs by machine.
pub(crate) fn settle_modes(folder: &Path) -> anyhow::Result<()> {
    let of_folder = if folder.ends_with("tmp") { 0o1777 } else { 0o755 };
    set_mode(folder, of_folder)?;
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let (path, kind) = entry.and_then(|one| Ok((one.path(), one.file_type()?)))?;
        if kind.is_dir() {
            settle_modes(&path)?;
        } else if kind.is_file() {
            let runs = std::fs::metadata(&path)?.permissions().mode() & 0o100 != 0;
            set_mode(&path, if runs { 0o755 } else { 0o644 })?;
        }
    }
    Ok(())
}

pub(crate) fn set_mode(path: &Path, mode: u32) -> anyhow::Result<()> {
    let mode = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(path, mode).with_context(|| path.display().to_string())
}

fn names(folder: &Path) -> anyhow::Result<Vec<std::ffi::OsString>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut names = entries.map(|one| Ok(one?.file_name())).collect::<std::io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}
