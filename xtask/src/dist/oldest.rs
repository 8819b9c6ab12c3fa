//! The glibc that the programs are linked against: Debian 11's, whatever this machine has.
//!
//! A linker gives each symbol of glibc the newest version that its library has, so a program that
//! was linked on Debian 12 does not start on Debian 11. Only the last step changes: the arguments
//! go to the crate of the program, and dependencies stay as cargo has built them. A C object among
//! them that needs a newer symbol fails to link, so it never reaches a user.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::debs;
use super::place::{self, Place};
use crate::house::House;

const KEY: &str = "DIST_GLIBC_DEBS";
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// The arguments with which rustc links a program against the old glibc.
pub(crate) fn rustc_args(house: &House, place: &Place) -> anyhow::Result<Vec<String>> {
    let root = root(house, place)?;
    // cc prefers the machine's own start files and libraries to those below --sysroot; -B comes first.
    let (sysroot, libraries) = (root.display(), root.join(LIBRARIES));
    let args = [
        "strip=symbols".to_owned(),
        format!("link-arg=--sysroot={sysroot}"),
        format!("link-arg=-B{}", libraries.display()),
    ];
    Ok(args.into_iter().flat_map(|arg| ["-C".to_owned(), arg]).collect())
}

/// A small root with Debian 11's glibc: for the linker, and to run programs in.
pub(crate) fn root(house: &House, place: &Place) -> anyhow::Result<PathBuf> {
    let (root, stamp) = (place.work.join("oldest"), place.work.join("oldest.pins"));
    let pins = house.pinned(KEY)?;
    if std::fs::read_to_string(&stamp).is_ok_and(|made| made == pins) {
        return Ok(root);
    }
    place::fresh(&root)?;
    for deb in debs::fetch(house, place, KEY)? {
        debs::unpack(&deb, &root)?;
    }
    make_links_relative(&root, &root)?;
    // The linker asks for this name; Debian has it in a package of the compiler.
    let (to, name) = ("../../../lib/x86_64-linux-gnu/libgcc_s.so.1", "libgcc_s.so");
    symlink(to, root.join(LIBRARIES).join(name)).context("cannot make the link to libgcc_s")?;
    std::fs::write(&stamp, pins).with_context(|| stamp.display().to_string())?;
    Ok(root)
}

/// Links to `/lib/...` would leave the root for the machine's own libraries.
fn make_links_relative(folder: &Path, root: &Path) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let (path, kind) = entry.and_then(|one| Ok((one.path(), one.file_type()?)))?;
        if kind.is_dir() {
            make_links_relative(&path, root)?;
        } else if kind.is_symlink() {
            let target = std::fs::read_link(&path)?;
            if let Ok(inside) = target.strip_prefix("/") {
                let depth = folder.strip_prefix(root).map_or(0, |below| below.components().count());
                std::fs::remove_file(&path)?;
                symlink(Path::new(&"../".repeat(depth)).join(inside), &path)?;
            }
        }
    }
    Ok(())
}
