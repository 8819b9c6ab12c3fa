//! Service discovery: replicas in addition to those of the configuration, from a file that may
//! change (`file.rs`) and from names in the DNS (`names.rs`).
//!
//! Each source has a task that polls it. New replicas join; missing ones drain, and leave when
//! their requests have ended. A failed poll changes nothing: the last good result stays in force,
//! and the log, the status and the metrics report the failure. A DNS answer without any address
//! counts as a failure too, so a name server that lost its records does not empty a fleet.
//!
//! A replica belongs to the part that added it first: the file, a source or the admin port. If the
//! registry has a record of it, the registry decides.

mod file;
mod names;
pub(crate) mod source;

use std::sync::Arc;

use meridian_tls::Look;
use meridian_wire::config;
use tokio::task::JoinSet;

use self::source::Source;

/// Files of `discovery` that are currently invalid, or list more replicas than there may be. A
/// start ignores the former, and takes the first replicas of the latter.
pub(crate) fn problems(config: &config::Gateway) -> Vec<String> {
    let sources = config.discovery.iter().enumerate();
    let of = |(at, source): (usize, &config::Source)| {
        let problem = match file::list(file::read(source.file.as_ref()?)) {
            Ok(list) => {
                let names = list.iter().filter_map(|replica| replica.credentials.as_deref());
                let unknown = |name| config::unknown_credentials(name, &config.credentials);
                let long = || config::beyond_limit(list.len(), config.limits.replicas);
                names.filter_map(unknown).next().or_else(long)?
            }
            Err(problem) => format!("{problem}; write a list of replicas to the file"),
        };
        Some(format!("discovery[{at}].file: {problem}"))
    };
    sources.filter_map(of).collect()
}

/// Polls every source; never returns.
pub(crate) fn start(sources: &[Arc<Source>], background: &mut JoinSet<()>) {
    for source in sources {
        let source = source.clone();
        match source.config.file.clone() {
            Some(path) => background.spawn(file::keep(source, path)),
            None => background.spawn(names::keep(source)),
        };
    }
}

/// Reads a source's file at once and returns the result. For a name it only triggers a lookup: the
/// answer comes later, and no result is returned here.
pub(crate) async fn reload(source: &Source) -> Option<Look> {
    match &source.config.file {
        Some(path) => Some(file::look(source, path).await),
        None => {
            source.again();
            None
        }
    }
}
