//! The files of the image's two layers.
//!
//! The first layer takes from Debian's packages the libraries that the programs load, their licences,
//! and the control files from which vulnerability scanners read the versions.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::cmd::{cmd, stdout_of};
use crate::dist::archive::set_mode;
use crate::dist::debs;
use crate::dist::layout::{copy, write};
use crate::dist::place::Place;
use crate::dist::programs::Programs;
use crate::house::House;

const LIBRARIES: &str = "lib/x86_64-linux-gnu";
const LOADER: &str = "ld-linux-x86-64.so.2";
/// The libraries that the programs load, and those with which the C library resolves names.
const TAKEN: [&str; 9] = [
    "libc.so.6",
    "libm.so.6",
    "libgcc_s.so.1",
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
    "libresolv.so.2",
    "libnss_files.so.2",
    "libnss_dns.so.2",
];
const LICENCES: [&str; 3] = ["libc6", "gcc-12-base", "ca-certificates"];
const ACCOUNTS: [&str; 4] = ["passwd", "group", "nsswitch.conf", "os-release"];

/// The layer of Debian's files.
pub(super) fn libraries(house: &House, place: &Place) -> anyhow::Result<PathBuf> {
    let (from, root) = (place.stage("image-debs")?, place.stage("image-libraries")?);
    for deb in debs::fetch(house, place, "DIST_IMAGE_DEBS")? {
        debs::unpack(&deb, &from)?;
        let status = stdout_of(cmd(&house.root, "dpkg-deb", &["--field", path(&deb)?]))?;
        let package = stdout_of(cmd(&house.root, "dpkg-deb", &["-f", path(&deb)?, "Package"]))?;
        write(&root.join("var/lib/dpkg/status.d").join(package.trim()), &status)?;
    }
    for name in TAKEN.iter().chain([&LOADER]) {
        let file = Path::new(LIBRARIES).join(name);
        copy(&from.join(&file), &root.join(&file))?;
    }
    set_mode(&root.join(LIBRARIES).join(LOADER), 0o755)?;
    std::fs::create_dir(root.join("lib64"))?;
    symlink(Path::new("../lib/x86_64-linux-gnu").join(LOADER), root.join("lib64").join(LOADER))?;
    for package in LICENCES {
        let file = Path::new("usr/share/doc").join(package).join("copyright");
        copy(&from.join(&file), &root.join(&file))?;
    }
    write(&root.join("etc/ssl/certs/ca-certificates.crt"), &authorities(&from)?)?;
    for file in ACCOUNTS {
        copy(&house.root.join("packaging/image").join(file), &root.join("etc").join(file))?;
    }
    std::fs::create_dir(root.join("tmp"))?;
    Ok(root)
}

/// The layer of the programs.
pub(super) fn programs(
    house: &House,
    place: &Place,
    programs: &Programs,
) -> anyhow::Result<PathBuf> {
    let root = place.stage("image-programs")?;
    programs.copy_to(&root.join("usr/bin"))?;
    copy(&house.root.join("LICENSE"), &root.join("usr/share/doc/meridian/LICENSE"))?;
    Ok(root)
}

/// All certificates of Debian's package in one file, as its own script writes it.
fn authorities(from: &Path) -> anyhow::Result<String> {
    let folder = from.join("usr/share/ca-certificates/mozilla");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        files.push(entry?.path());
    }
    files.sort();
    let texts = files.iter().map(std::fs::read_to_string);
    let texts: Vec<String> = texts.collect::<Result<_, _>>().context("an authority is not text")?;
    Ok(texts.concat())
}

fn path(file: &Path) -> anyhow::Result<&str> {
    file.to_str().context("the checkout's path is not text")
}
