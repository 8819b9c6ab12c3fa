//! A fleet: the processes of one run on one machine, and the place where their logs are.
//!
//! Dropping it kills whatever still runs, also when a test panics or the caller leaves early; a
//! caller that dies without dropping anything is covered by the keeper. Processes are owned by
//! whoever started them, so a test can kill one and start another under the same name.

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
    // Dropped before the directory: a process that still runs would write into it.
    keeper: Keeper,
    dir: RunDir,
}

impl Fleet {
    /// A fleet whose engines, gateways and loads are run by `binary`, a `meridian`.
    pub fn new(binary: impl Into<PathBuf>) -> Result<Fleet> {
        let (keeper, dir) = (Keeper::start()?, RunDir::new()?);
        Ok(Fleet { binary: binary.into(), clocks: None, namespace: None, keeper, dir })
    }

    /// A fleet run by the very file that this process runs.
    pub fn of_this_program() -> Result<Fleet> {
        let binary = std::env::current_exe().map_err(Error::file("finding", "this program"))?;
        Fleet::new(binary)
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

    /// Starts a subcommand of `meridian`, and waits until it is ready.
    pub async fn meridian<A: Into<std::ffi::OsString>>(
        &self,
        name: &str,
        args: impl IntoIterator<Item = A>,
        ready: &'static [&'static str],
    ) -> Result<Process> {
        self.start(Program::new(name, &self.binary).args(args).ready(ready)).await
    }

    /// From now on programs are started in this network namespace, or again in the machine's own.
    pub fn enter(&mut self, namespace: Option<&str>) {
        self.namespace = namespace.map(str::to_owned);
    }

    /// From now on each program that is started reads a wall clock of its own, by libfaketime.
    pub fn fake_clocks(&mut self, library: &Path) {
        self.clocks = Some(Clocks::new(library));
    }

    /// Sets a program's wall clock to so many seconds beside the machine's, for it and for those
    /// that are started under its name later.
    ///
    /// # Errors
    /// When the fleet has no such clocks, or the file cannot be written.
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

    /// Leaves the directory where it is when the fleet ends.
    pub fn keep_logs(&self) {
        self.dir.keep();
    }
}
