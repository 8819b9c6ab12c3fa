//! A Python virtual environment with exactly the pinned packages and no further dependencies: the
//! same bytes on every machine.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Error, Result};

/// The only place where versions are set.
const VERSIONS: &str = include_str!("../../../versions.env");

/// Python software with its pinned packages.
#[derive(Debug, Clone, Copy)]
pub struct Pins {
    /// The name in errors.
    pub name: &'static str,
    /// Its line in `versions.env`, which includes all dependencies that the software needs.
    pub key: &'static str,
    /// A module that imports if the environment works.
    pub module: &'static str,
}

impl Pins {
    fn packages(&self) -> &'static str {
        packages(self.key)
    }
}

/// The packages of a line of `versions.env`.
pub(crate) fn packages(key: &str) -> &'static str {
    let line = VERSIONS.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    line.expect("versions.env names the packages").trim_matches('"')
}

/// The installation directory of some software: `$MERIDIAN_HOME/NAME`, or `.venv/NAME` in the nearest directory at or
/// above `start` that contains a `Cargo.lock`, or in `start` itself.
pub fn home(start: &Path, name: &str) -> PathBuf {
    if let Some(home) = std::env::var_os("MERIDIAN_HOME") {
        return PathBuf::from(home).join(name);
    }
    let root = start.ancestors().find(|dir| dir.join("Cargo.lock").is_file());
    root.unwrap_or(start).join(".venv").join(name)
}

/// The interpreter of an environment under `home`, installed if it is missing. If several processes
/// ask at once, one installs and the others wait.
///
/// # Errors
/// If a step fails; the error names it and the remedy.
pub async fn install(home: &Path, pins: Pins) -> Result<PathBuf> {
    let home = home.to_owned();
    let work = tokio::task::spawn_blocking(move || {
        let (home, _guard) = locked(&home)?;
        ensure(&home, pins)
    });
    work.await.expect("the installation does not panic")
}

/// The directory, locked against other processes while the file is open.
pub(crate) fn locked(home: &Path) -> Result<(PathBuf, File)> {
    std::fs::create_dir_all(home).map_err(Error::file("making", home))?;
    let home = home.canonicalize().map_err(Error::file("finding", home))?;
    let lock = home.join("lock");
    let guard = File::create(&lock).map_err(Error::file("making", &lock))?;
    guard.lock().map_err(Error::file("locking", &lock))?;
    Ok((home, guard))
}

/// The interpreter of the environment under `home`, created, or created again if it differs from
/// the pins.
pub(crate) fn ensure(home: &Path, pins: Pins) -> Result<PathBuf> {
    let venv = home.join("venv");
    let python = venv.join("bin").join("python");
    let (stamp, packages) = (venv.join("pins.txt"), pins.packages());
    let found = std::fs::read_to_string(&stamp).is_ok_and(|found| found == packages);
    if found && works(&python, pins.module) {
        return Ok(python);
    }
    if venv.exists() {
        std::fs::remove_dir_all(&venv).map_err(Error::file("removing", &venv))?;
    }
    require_python()?;
    run(
        "making a Python environment",
        Command::new("python3").args(["-m", "venv"]).arg(&venv),
        "install Python's venv module: apt-get install python3-venv",
    )?;
    run(
        &format!("installing {}", pins.name),
        Command::new(&python)
            .args(["-m", "pip", "install", "--no-deps", "--disable-pip-version-check", "--quiet"])
            .args(packages.split_whitespace()),
        "the packages must be reachable by pip, and Python must be 3.10 or newer (Debian 12 has 3.11)",
    )?;
    // Written last: an interrupted installation has no stamp and is repeated.
    std::fs::write(&stamp, packages).map_err(Error::file("writing", &stamp))?;
    Ok(python)
}

/// Whether the interpreter still runs: a system upgrade may remove an environment's base.
fn works(python: &Path, module: &str) -> bool {
    let mut command = Command::new(python);
    command.args(["-c", &format!("import {module}")]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn require_python() -> Result<()> {
    let mut command = Command::new("python3");
    match command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Error::Missing {
            what: "python3".into(),
            remedy: "apt-get install python3 python3-venv".into(),
        }),
    }
}

/// Runs a tool to its end; if it fails, the error contains its output.
pub(crate) fn run(what: &str, command: &mut Command, remedy: &str) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().map_err(|source| Error::Start {
        name: what.to_owned(),
        program: command.get_program().into(),
        source,
    })?;
    if output.status.success() {
        return Ok(());
    }
    let mut log = String::from_utf8_lossy(&output.stdout).into_owned();
    log.push_str(&String::from_utf8_lossy(&output.stderr));
    Err(Error::Tool {
        what: what.to_owned(),
        status: output.status,
        remedy: remedy.to_owned(),
        log,
    })
}
