//! Errors of a fleet, each with a remedy for the reader.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// The result of anything that a fleet does.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a fleet: the program or address, the problem, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory of the run could not be created, read or written.
    #[error("{what} {path}: {source}")]
    File {
        /// The operation, as a verb: "writing".
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("starting {name} ({program}): {source}")]
    Start {
        /// The name of the process in this fleet.
        name: String,
        /// The file to execute.
        program: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A program ended before it was ready.
    #[error("{name} ended with {status} before it printed \"{awaited}\"\n{log}")]
    EndedEarly {
        /// The name of the process in this fleet.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// The expected line.
        awaited: String,
        /// The last lines of its log.
        log: String,
    },
    /// A program missed a timeout.
    #[error("{name} did not {what} within {limit:?}\n{log}")]
    TooSlow {
        /// The name of the process in this fleet.
        name: String,
        /// The expected action: "print \"listening on \"", "end after SIGTERM".
        what: String,
        /// The timeout.
        limit: Duration,
        /// The last lines of its log.
        log: String,
    },
    /// A tool that makes something (a virtual environment, a model) failed.
    #[error("{what} failed with {status}: {remedy}\n{log}")]
    Tool {
        /// Its purpose.
        what: String,
        /// How it ended.
        status: ExitStatus,
        /// The remedy.
        remedy: String,
        /// Its output.
        log: String,
    },
    /// Something that the fleet needs is missing on this machine.
    #[error("{what} is missing: {remedy}")]
    Missing {
        /// The missing thing.
        what: String,
        /// How to get it.
        remedy: String,
    },
    /// A certificate of the fleet is unusable.
    #[error(transparent)]
    Tls(#[from] meridian_tls::FileError),
    /// A program did not answer an HTTP request.
    #[error("{method} {url}: {source}")]
    Http {
        /// The method of the request.
        method: &'static str,
        /// The requested address.
        url: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A program's answer violates its protocol.
    #[error("{url} answered with {what}")]
    Answer {
        /// The requested address.
        url: String,
        /// The problem.
        what: String,
    },
    /// The address is not available.
    #[error("{field} {address}: {source}; use a free port of this machine, or 0 for any")]
    Listen {
        /// The name of the setting.
        field: String,
        /// The address given.
        address: std::net::SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// A responder of the network's probe cannot be used.
    #[error("{address}: {what}; {remedy}")]
    Probe {
        /// The address of the responder.
        address: String,
        /// The problem.
        what: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// A command over ssh failed.
    #[error("ssh {host}: {what}; {remedy}")]
    Ssh {
        /// The host.
        host: String,
        /// The problem, with ssh's own words.
        what: String,
        /// The remedy.
        remedy: String,
    },
    /// A setting of the fleet is invalid.
    #[error("{field} {value}: {remedy}")]
    Setting {
        /// The name of the setting.
        field: &'static str,
        /// The value given.
        value: String,
        /// The valid values.
        remedy: String,
    },
}

impl Error {
    /// For `map_err` on a file operation.
    pub(crate) fn file(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { what, path, source }
    }
}
