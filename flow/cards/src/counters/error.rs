//! Why a card cannot be watched.

use std::path::PathBuf;

/// An error about cards or their rates.
#[derive(Debug, thiserror::Error)]
pub enum CardsError {
    /// The folder of network devices cannot be read.
    #[error("cannot read {path}: {source}; mount sysfs there", path = .path.display())]
    Sysfs {
        /// The folder.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// No card has this name.
    #[error("no card is called `{name}`; use one of {known}")]
    Unknown {
        /// The name given.
        name: String,
        /// All names, virtual cards included.
        known: String,
    },
    /// A rate was given for a card that is not watched.
    #[error("`{name}` is not watched, as {why}; name it with --card, or remove its rate")]
    Unwatched {
        /// The card.
        name: String,
        /// The reason.
        why: String,
    },
    /// Not a rate.
    #[error(
        "`{text}` is not a rate: write a number above 0 with a unit, as in 25Gbps or 3.125GB/s"
    )]
    Rate {
        /// The text given.
        text: String,
    },
}
