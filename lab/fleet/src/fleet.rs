//! A fleet: the processes of one run on one machine, and the directory with their logs.
//!
//! Dropping it kills all remaining processes, also when a test panics or the caller returns early.
//! If the caller dies without dropping anything, the keeper does it. A process belongs to the
//! caller that started it, so a test can kill one and start another with the same name.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::clocks::Clocks;
use crate::keeper::Keeper;
use crate::rundir::RunDir;
use crate::{Error, Process, Program, Result};

/// The processes of one run.
#[derive(Debug)]
pub struct Fleet {
    binary: PathBuf,
    clocks: Option<Clocks>,
    namespace: Option<String>,
    // Dropped before the directory: a running process would write into it.
    keeper: Keeper,
    dir: RunDir,
}

impl Fleet {
    /// A fleet whose engines, gateways and loads run `binary`, a `meridian`.
    pub fn new(binary: impl Into<PathBuf>) -> Result<Fleet> {
        let dir = RunDir::new()?;
        let keeper = Keeper::start(dir.path())?;
        Ok(Fleet { binary: binary.into(), clocks: None, namespace: None, keeper, dir })
    }

    /// A fleet that runs the `meridian` beside this program, which runs the laboratory's commands.
    ///
    /// # Errors
    /// If it is not there.
    pub fn of_this_program() -> Result<Fleet> {
        Fleet::new(meridian()?)
    }

    /// Starts a program and waits until it is ready.
    pub async fn start(&self, mut program: Program) -> Result<Process> {
        if let Some(clocks) = &self.clocks {
            program.env = clocks.env(self.dir(), &program.name)?;
        }
        if let Some(namespace) = &self.namespace {
            let inner = std::mem::replace(&mut program.path, "ip".into());
            let enter = ["netns", "exec", namespace].map(OsString::from);
            let args = std::mem::take(&mut program.args);
            program.args = enter.into_iter().chain([inner.into()]).chain(args).collect();
        }
        program.start(self.dir.path(), self.keeper.group()).await
    }

    /// Starts a subcommand of `meridian` and waits until it is ready.
    pub async fn meridian<A: Into<std::ffi::OsString>>(
        &self,
        name: &str,
        args: impl IntoIterator<Item = A>,
        ready: &'static [&'static str],
    ) -> Result<Process> {
        self.start(Program::new(name, &self.binary).args(args).ready(ready)).await
    }

    /// Starts further programs in this network namespace, or in the machine's own again.
    pub fn enter(&mut self, namespace: Option<&str>) {
        self.namespace = namespace.map(str::to_owned);
    }

    /// Gives each further program its own wall clock, through libfaketime.
    pub fn fake_clocks(&mut self, library: &Path) {
        self.clocks = Some(Clocks::new(library));
    }

    /// Shifts a program's wall clock by this many seconds, for it and for later programs with its
    /// name.
    ///
    /// # Errors
    /// If the fleet has no such clocks, or the file can't be written.
    pub fn set_clock(&self, name: &str, by: i64) -> Result<()> {
        match &self.clocks {
            Some(clocks) => clocks.set(self.dir(), name, by),
            None => Err(Error::Missing {
                what: "a clock for each program".into(),
                remedy: "call fake_clocks before programs are started".into(),
            }),
        }
    }

    /// The directory with the logs and config files of the run.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Keeps the directory when the fleet ends.
    pub fn keep_logs(&self) {
        self.dir.keep();
    }
}

/// The `meridian` beside this program.
///
/// # Errors
/// If it is not there.
pub fn meridian() -> Result<PathBuf> {
    let own = std::env::current_exe().map_err(Error::file("finding", "this program"))?;
    let beside = own.with_file_name("meridian");
    if beside.is_file() {
        return Ok(beside);
    }
    Err(Error::Missing {
        what: beside.display().to_string(),
        remedy: "install it beside this program; from source: cargo build --package meridian"
            .into(),
    })
}
