//! Replicas that are found beside those that the configuration names: in a file that may change
//! (`file.rs`), and by names in the DNS (`names.rs`).
//!
//! Each source has a task that looks again and again. What it finds joins; what it does not find any
//! more drains, and leaves when its requests have ended. A look that fails changes nothing: the last
//! good one counts on, and the log, the status and the metrics say so. An answer without a single
//! address counts as a failure too, so that a name server that lost its records empties no fleet.
//!
//! A replica belongs to whoever brought it here first: the file, a source or the admin port. Where
//! the registry has a record of it, the registry decides.

mod file;
mod names;
pub(crate) mod source;

use std::sync::Arc;

use meridian_tls::Look;
use meridian_wire::config;
use tokio::task::JoinSet;

use self::source::Source;

/// Files of `discovery` that are no lists of replicas now. A start goes on without them.
pub(crate) fn problems(config: &config::Gateway) -> Vec<String> {
    let limit = usize::from(config.limits.replicas);
    let sources = config.discovery.iter().enumerate();
    let of = |(at, source): (usize, &config::Source)| {
        let problem = file::list(file::read(source.file.as_ref()?), limit).err()?;
        Some(format!("discovery[{at}].file: {problem}; write the list of replicas there"))
    };
    sources.filter_map(of).collect()
}

/// Looks at every source, for ever.
pub(crate) fn start(sources: &[Arc<Source>], limit: u16, background: &mut JoinSet<()>) {
    for source in sources {
        let source = source.clone();
        match source.config.file.clone() {
            Some(path) => background.spawn(file::keep(source, path, usize::from(limit))),
            None => background.spawn(names::keep(source)),
        };
    }
}

/// Reads a source's file at once and says what came of it. A name is only asked for again: the
/// answer comes later, and none is reported here.
pub(crate) async fn reload(source: &Source, limit: u16) -> Option<Look> {
    match &source.config.file {
        Some(path) => Some(file::look(source, path, usize::from(limit)).await),
        None => {
            source.again();
            None
        }
    }
}
