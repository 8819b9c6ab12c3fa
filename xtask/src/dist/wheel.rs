//! The wheel, made by maturin.
//!
//! maturin runs the same `cargo rustc` as the build before it, which leaves cargo nothing to
//! compile; a variable that is set here and not there would have it compile half of the libraries
//! again. maturin builds programs of one package, `meridian`, so `meridian-lab` comes as a file: a
//! copy of the Python project has it in `data/scripts`, whose files pip installs as programs.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::binary::Profile;
use super::layout::{copy, write};
use super::pgo::Flags;
use super::place::Place;
use super::programs::{LAB, Programs};
use super::sbom;
use crate::cmd::{self, cmd, stdout_of};
use crate::house::House;

/// Where the Python project is, from the root.
const PROJECT: &str = "packaging/python";
/// The project's path of the package that has `meridian`, and the table that names it.
const PACKAGE: &str = "../meridian/Cargo.toml";
const TABLE: &str = "[tool.maturin]\n";

/// Makes the wheel with the SBOM inside; its path, whose name maturin chooses.
pub(super) fn make(
    house: &House,
    place: &Place,
    programs: &Programs,
    profile: Profile,
    rustc_args: &[String],
    flags: Option<&Flags>,
) -> anyhow::Result<PathBuf> {
    let venv = venv(house)?;
    let project = project(house, place, programs)?;
    let mut maturin = cmd(&project, venv.join("maturin"), &["build"]);
    maturin.args(["--profile", profile.name()]).arg(profile.features());
    // Without it maturin names the wheel after the symbols of `meridian` alone.
    let glibc = house.pinned("DIST_GLIBC")?.replace('.', "_");
    maturin.args(["--compatibility", &format!("manylinux_{glibc}")]);
    maturin.args(["--auditwheel", "check", "--out"]).arg(&place.out);
    maturin.arg("--sbom-include").arg(sbom::path(place)).arg("--").args(rustc_args);
    if let Some(flags) = flags {
        flags.set(&mut maturin);
    }
    ensure!(cmd::ends_well(maturin)?, "maturin made no wheel, see above");
    find(&place.out, "meridian_llm")
}

/// The Python project with `meridian-lab` among its files; its folder.
fn project(house: &House, place: &Place, programs: &Programs) -> anyhow::Result<PathBuf> {
    let (from, folder) = (house.root.join(PROJECT), place.stage("wheel")?);
    for name in ["README.md", "LICENSE"] {
        copy(&from.join(name), &folder.join(name))?;
    }
    programs.copy_one_to(&LAB, &folder.join("data/scripts"))?;
    let file = format!("{PROJECT}/pyproject.toml");
    let text = house.file(&file)?;
    ensure!(text.contains(PACKAGE) && text.contains(TABLE), "{file} lacks {TABLE}or {PACKAGE}");
    let package = from.join(PACKAGE).canonicalize().context(PACKAGE)?;
    let package = package.to_str().context("the checkout's path is not text")?;
    let text = text.replace(PACKAGE, package);
    let text = text.replace(TABLE, &format!("{TABLE}data = \"data\"\n"));
    write(&folder.join("pyproject.toml"), &text)?;
    Ok(folder)
}

/// A Python environment with the pinned maturin and setuptools; its folder of programs.
pub(super) fn venv(house: &House) -> anyhow::Result<PathBuf> {
    let pins = house.pinned("DIST_PIP")?;
    let (folder, stamp) = (house.root.join(".venv/dist"), house.root.join(".venv/dist.pins"));
    let bin = folder.join("bin");
    if std::fs::read_to_string(&stamp).is_ok_and(|made| made == pins) {
        return Ok(bin);
    }
    let mut make = cmd(&house.root, "python3", &["-m", "venv", "--clear"]);
    make.arg(&folder);
    stdout_of(make).context("cannot make .venv/dist; Debian's package is python3-venv")?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    let mut install = cmd(&house.root, bin.join("python"), &pip);
    install.args(pins.split(' '));
    stdout_of(install)?;
    std::fs::write(&stamp, pins).context(".venv/dist.pins")?;
    Ok(bin)
}

/// The wheel of a Python package.
pub(super) fn find(folder: &Path, package: &str) -> anyhow::Result<PathBuf> {
    let files = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    let names = files.into_iter().map(|one| one.file_name().to_string_lossy().into_owned());
    let start = format!("{package}-");
    let wheel = names.into_iter().find(|name| name.starts_with(&start) && name.ends_with(".whl"));
    let wheel = wheel.with_context(|| format!("no wheel of {package} in {}", folder.display()))?;
    Ok(folder.join(wheel))
}
