//! What can go wrong with a fleet, said so that the reader knows what to do next.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// The result of anything that a fleet does.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a fleet: which program or address, what happened, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory of the run could not be made, read or written.
    #[error("{what} {path}: {source}")]
    File {
        /// What was tried, as a verb: "writing".
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's own words.
        source: io::Error,
    },
    /// A program could not be started at all.
    #[error("starting {name} ({program}): {source}")]
    Start {
        /// The name of the process in this fleet.
        name: String,
        /// The file that was to be executed.
        program: PathBuf,
        /// The system's own words.
        source: io::Error,
    },
    /// A program ended before it said that it was ready.
    #[error("{name} ended with {status} before it printed \"{awaited}\"\n{log}")]
    EndedEarly {
        /// The name of the process in this fleet.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// The line that was waited for.
        awaited: String,
        /// The last lines of its log.
        log: String,
    },
    /// A program did not do something within the limit for it.
    #[error("{name} did not {what} within {limit:?}\n{log}")]
    TooSlow {
        /// The name of the process in this fleet.
        name: String,
        /// What was waited for: "print \"listening on \"", "end after SIGTERM".
        what: String,
        /// How long it was waited for.
        limit: Duration,
        /// The last lines of its log.
        log: String,
    },
    /// A tool that makes something (a virtual environment, a model) failed.
    #[error("{what} failed with {status}: {remedy}\n{log}")]
    Tool {
        /// What it was to do.
        what: String,
        /// How it ended.
        status: ExitStatus,
        /// What to do about it.
        remedy: String,
        /// What it printed.
        log: String,
    },
    /// Something that the fleet needs is not on this machine.
    #[error("{what} is missing: {remedy}")]
    Missing {
        /// What is needed.
        what: String,
        /// How to get it.
        remedy: String,
    },
    /// A program did not answer a question over HTTP.
    #[error("{method} {url}: {source}")]
    Http {
        /// The method of the request.
        method: &'static str,
        /// The address asked.
        url: String,
        /// What happened.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A program answered, and the answer is not what its protocol promises.
    #[error("{url} answered with {what}")]
    Answer {
        /// The address asked.
        url: String,
        /// What is wrong with the answer.
        what: String,
    },
    /// An address can't be listened on.
    #[error("{field} {address}: {source}; use a free port of this machine, or 0 for any")]
    Listen {
        /// The name of the setting.
        field: String,
        /// The address given.
        address: std::net::SocketAddr,
        /// The system's own words.
        source: io::Error,
    },
    /// A setting of the fleet makes no sense.
    #[error("{field} {value}: {remedy}")]
    Setting {
        /// The name of the setting.
        field: &'static str,
        /// The value given.
        value: String,
        /// What it may be.
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
