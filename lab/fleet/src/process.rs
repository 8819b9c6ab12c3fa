//! One program of a fleet: starts it, waits until it is ready, and ends it.
//!
//! Both its outputs go to one log file. From its stdout the fleet also reads the lines that report
//! readiness (`listening on http://...`), so the kernel can choose all ports, and keeps the latest
//! line for callers.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::rundir::tail;
use crate::{Error, Result};

/// How long a program may take to be ready. A guard, not an expectation: with every core busy,
/// starting an interpreter takes seconds.
const READY_LIMIT: Duration = Duration::from_secs(90);
/// A slowed program is suspended and runs for these times in turn.
const SLOWED: [Duration; 2] = [Duration::from_millis(80), Duration::from_millis(20)];
/// The longest wait for the rest of the pipe of a program that has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Settings of a program.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its name in this fleet: for its log file, and in every error.
    pub name: String,
    /// The file to execute.
    pub path: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Additional environment variables.
    pub env: Vec<(OsString, OsString)>,
    /// Prefixes of the stdout lines that report readiness.
    pub ready: &'static [&'static str],
}

/// A running program. It is killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    said: Vec<String>,
    line: watch::Receiver<String>,
    /// Whether it is suspended.
    stopped: bool,
    /// Set while it is slowed.
    slowed: Option<Slowed>,
    /// Whether it was asked to end.
    ending: bool,
    /// Copies its output into its log.
    copying: JoinHandle<()>,
    // Closes with this value: a program that watches its stdin then ends.
    _stdin: Option<ChildStdin>,
}

impl Program {
    /// A program that prints nothing when it is ready.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Program {
        Program {
            name: name.into(),
            path: path.into(),
            args: Vec::new(),
            env: Vec::new(),
            ready: &[],
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Program {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Waits for lines on stdout with these prefixes, one after the other.
    #[must_use]
    pub fn ready(mut self, ready: &'static [&'static str]) -> Program {
        self.ready = ready;
        self
    }

    /// Starts the program in a process group and waits until it is ready.
    pub(crate) async fn start(self, dir: &Path, group: i32) -> Result<Process> {
        let log = dir.join(format!("{}.log", self.name));
        let file = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(Error::file("opening", &log))?;
        let stderr = file.try_clone().map_err(Error::file("opening", &log))?;
        let mut child = Command::new(&self.path)
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .process_group(group)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| Error::Start {
                name: self.name.clone(),
                program: self.path.clone(),
                source,
            })?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("stdout was asked to be a pipe");
        let mut lines = BufReader::new(stdout).lines();
        let mut said = Vec::new();
        for start in self.ready {
            let wait = await_line(&mut lines, &file, start);
            match tokio::time::timeout(READY_LIMIT, wait).await {
                Ok(Some(rest)) => said.push(rest),
                Ok(None) => return Err(ended_early(&self.name, child, start, &log).await),
                Err(_) => return Err(not_ready(&self.name, start, &log)),
            }
        }
        let (send, line) = watch::channel(String::new());
        let copying = tokio::spawn(copy_lines(lines, file, send));
        let name = self.name;
        let (stopped, slowed, ending) = (false, None, false);
        Ok(Process {
            name,
            child,
            log,
            said,
            line,
            stopped,
            slowed,
            ending,
            copying,
            _stdin: stdin,
        })
    }
}

/// Suspends a program most of the time, until it is dropped.
#[derive(Debug)]
struct Slowed(Arc<Mutex<bool>>);

impl Slowed {
    fn begin(pid: Pid) -> Slowed {
        let goes_on = Arc::new(Mutex::new(true));
        let slowed = Slowed(goes_on.clone());
        tokio::spawn(async move {
            for (signal, then) in [Signal::STOP, Signal::CONT].into_iter().zip(SLOWED).cycle() {
                {
                    let goes_on = goes_on.lock().unwrap_or_else(PoisonError::into_inner);
                    if !*goes_on {
                        return;
                    }
                    let _ = kill_process(pid, signal);
                }
                tokio::time::sleep(then).await;
            }
        });
        slowed
    }
}

impl Drop for Slowed {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = false;
    }
}

impl Process {
    /// Its name in this fleet.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text after the prefix of the `nth` ready line: the address in `listening on ADDRESS`.
    ///
    /// # Panics
    /// If the program has fewer ready lines.
    pub fn said(&self, nth: usize) -> &str {
        &self.said[nth]
    }

    /// Adds an address that the program does not print, for [`Process::said`].
    pub(crate) fn say(&mut self, address: String) {
        self.said.push(address);
    }

    /// The latest line of its stdout.
    pub fn line(&self) -> watch::Receiver<String> {
        self.line.clone()
    }

    /// Path of its log.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        tail(&self.log)
    }

    /// Its process id; none once it has ended and was reaped.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Kills it with SIGKILL, as a crash or the OOM killer would, and reaps it. Also ends a
    /// suspended process.
    pub async fn kill(&mut self) -> Result<()> {
        self.slowed = None;
        self.child.kill().await.map_err(Error::file("killing", &self.name))
    }

    /// Sends SIGTERM: a request to drain and end. A suspended process gets it when it resumes.
    /// No-op once it has ended.
    pub fn terminate(&mut self) {
        self.ending = true;
        self.send(Signal::TERM);
    }

    /// Suspends it with SIGSTOP: its connections stay open, and it answers nothing.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.send(Signal::STOP);
    }

    /// Suspends it for 80 of every 100 ms, as if its machine had too little CPU.
    pub fn slow(&mut self) {
        self.slowed = self.pid().map(Slowed::begin);
    }

    /// Resumes it after [`Process::stop`] or [`Process::slow`], with SIGCONT.
    pub fn go_on(&mut self) {
        (self.stopped, self.slowed) = (false, None);
        self.send(Signal::CONT);
    }

    /// Sends SIGHUP: a request to reload. No-op once it has ended.
    pub fn hang_up(&self) {
        self.send(Signal::HUP);
    }

    /// Whether it is suspended, or slowed.
    pub fn is_stopped(&self) -> bool {
        self.stopped || self.slowed.is_some()
    }

    /// Whether it was asked to end.
    pub fn is_ending(&self) -> bool {
        self.ending
    }

    fn send(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            // It may have ended a moment ago; it is not reaped, so no other process has its id.
            let _ = kill_process(pid, signal);
        }
    }

    fn pid(&self) -> Option<Pid> {
        self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()))
    }

    /// Waits until it has ended and all its output is in its log.
    pub async fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        match tokio::time::timeout(limit, self.child.wait()).await {
            Ok(status) => {
                // A child of it may still have its stdout open.
                if !self.copying.is_finished() {
                    let _ = tokio::time::timeout(LAST_WORDS, &mut self.copying).await;
                }
                status.map_err(Error::file("waiting for", &self.name))
            }
            Err(_) => Err(Error::TooSlow {
                name: self.name.clone(),
                what: "end".into(),
                limit,
                log: self.log_tail(),
            }),
        }
    }

    /// Its exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }
}

/// Reads lines until one starts with `start`; returns the rest of it, or none at the end.
async fn await_line(
    lines: &mut Lines<BufReader<ChildStdout>>,
    log: &File,
    start: &str,
) -> Option<String> {
    while let Ok(Some(line)) = lines.next_line().await {
        note(log, &line);
        if let Some(rest) = line.strip_prefix(start) {
            return Some(rest.trim().to_owned());
        }
    }
    None
}

/// Keeps the pipe empty: a program with a full stdout would block.
async fn copy_lines(
    mut lines: Lines<BufReader<ChildStdout>>,
    log: File,
    latest: watch::Sender<String>,
) {
    while let Ok(Some(line)) = lines.next_line().await {
        note(&log, &line);
        latest.send_replace(line);
    }
}

fn note(mut log: &File, line: &str) {
    // A log that can't be written (a full disk) must not stop the program.
    let _ = writeln!(log, "{line}");
}

async fn ended_early(name: &str, mut child: Child, awaited: &str, log: &Path) -> Error {
    // Its stdout is closed; a program that closes it and keeps running is unusable.
    let _ = child.start_kill();
    match child.wait().await {
        Ok(status) => Error::EndedEarly {
            name: name.to_owned(),
            status,
            awaited: awaited.to_owned(),
            log: tail(log),
        },
        Err(source) => Error::File { what: "waiting for", path: name.into(), source },
    }
}

fn not_ready(name: &str, awaited: &str, log: &Path) -> Error {
    Error::TooSlow {
        name: name.to_owned(),
        what: format!("print \"{awaited}\""),
        limit: READY_LIMIT,
        log: tail(log),
    }
}
