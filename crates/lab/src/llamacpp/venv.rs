//! A Python virtual environment with exactly the pinned packages and no further dependencies: the
//! same bytes on every machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Error, Result};

/// The only place where versions are set.
const VERSIONS: &str = include_str!("../../../../versions.env");

/// The pinned packages. They include all dependencies that the tools need.
fn pins() -> &'static str {
    let line = VERSIONS.lines().find_map(|line| line.strip_prefix("LLAMACPP_PIP="));
    line.expect("versions.env names llama.cpp's packages").trim_matches('"')
}

/// The interpreter of the environment under `home`, created, or created again if it differs from
/// the pins.
pub(super) fn ensure(home: &Path) -> Result<PathBuf> {
    let venv = home.join("venv");
    let python = venv.join("bin").join("python");
    let (stamp, pins) = (venv.join("pins.txt"), pins());
    if std::fs::read_to_string(&stamp).is_ok_and(|found| found == pins) && works(&python) {
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
        "installing llama.cpp for Python",
        Command::new(&python)
            .args(["-m", "pip", "install", "--no-deps", "--disable-pip-version-check", "--quiet"])
            .args(pins.split_whitespace()),
        "the packages must be reachable by pip, and Python must be 3.10 or newer (Debian 12 has 3.11)",
    )?;
    // Written last: an interrupted installation has no stamp and is repeated.
    std::fs::write(&stamp, pins).map_err(Error::file("writing", &stamp))?;
    Ok(python)
}

/// Whether the interpreter still runs: a system upgrade may remove an environment's base.
fn works(python: &Path) -> bool {
    let mut command = Command::new(python);
    command.args(["-c", "import xllamacpp"]).stdout(Stdio::null()).stderr(Stdio::null());
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
pub(super) fn run(what: &str, command: &mut Command, remedy: &str) -> Result<()> {
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
