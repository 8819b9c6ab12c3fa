//! Opens the sinks of a configuration and starts their writer.

use std::sync::Arc;

use meridian_wire::config::{ConfigError, Gateway as Config};
use prometheus_client::metrics::counter::Counter;

use super::export::Traces;
use super::file::{self, LogFile};
use super::journal;
use super::queue::{Dropped, MOST_QUEUED, Records};
use super::writer::{Out, Sink, Writer};
use crate::error::Error;
use crate::replicas::fleet::Fleet;

const ACCESS_LOG: &str = "access_log.to";
const JOURNAL: &str = "journal.to";

/// Opens the configured files and starts the writer. `dropped` gives the counter of a sink, and
/// `seed` is random.
///
/// # Errors
/// All files that can't be opened.
pub(crate) fn start(
    config: &Config,
    fleet: &Arc<Fleet>,
    seed: [u64; 2],
    dropped: impl Fn(&'static str) -> Counter,
) -> Result<Arc<Records>, Error> {
    let found = problems(config);
    if !found.is_empty() {
        return Err(ConfigError::from(found).into());
    }
    let dropped = Dropped {
        access_log: config.access_log.as_ref().map(|_| dropped("access_log")),
        journal: config.journal.as_ref().map(|_| dropped("journal")),
        traces: dropped("traces"),
    };
    let (records, queue) = Records::new(MOST_QUEUED, config.explain_keep, seed, dropped.clone());
    let resource = vec![
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id", format!("{}-{:016x}", config.region, seed[0])),
        ("meridian.region", config.region.clone()),
    ];
    let mut writer = Writer {
        access_log: None,
        journal: None,
        traces: Traces::new(resource, dropped.traces),
        recent: records.recent.clone(),
        spans: records.spans.clone(),
        fleet: fleet.clone(),
        region: config.region.clone(),
    };
    if let (Some(log), Some(counter)) = (&config.access_log, dropped.access_log) {
        let out = match log.is_stdout() {
            true => Out::Stdout,
            false => open(ACCESS_LOG, LogFile::open(&log.to, String::new(), log.rotate))?,
        };
        writer.access_log = Some((log.format, Sink::new(ACCESS_LOG, out, counter)));
    }
    if let (Some(journal), Some(counter)) = (&config.journal, dropped.journal) {
        let file = LogFile::open(&journal.to, journal::header(), journal.rotate);
        writer.journal = Some(Sink::new(JOURNAL, open(JOURNAL, file)?, counter));
    }
    let thread = std::thread::Builder::new().name("records".to_owned());
    thread
        .spawn(move || writer.run(&queue))
        .map_err(|source| Error::Io { what: "starting the thread of the records", source })?;
    Ok(Arc::new(records))
}

fn open(field: &'static str, file: std::io::Result<LogFile>) -> Result<Out, Error> {
    file.map(Out::File).map_err(|error| ConfigError::from(vec![format!("{field}: {error}")]).into())
}

/// Files that can't be written, each with its field and the remedy.
pub(crate) fn problems(config: &Config) -> Vec<String> {
    let log = config.access_log.as_ref().filter(|log| !log.is_stdout());
    let log = log.map(|log| (ACCESS_LOG, &log.to, log.rotate));
    let journal = config.journal.as_ref().map(|journal| (JOURNAL, &journal.to, journal.rotate));
    let named = log.into_iter().chain(journal).filter(|(_, to, _)| !to.is_empty());
    let problem = |(field, to, rotate): (&str, &String, Option<_>)| {
        let problem = file::problem(to, rotate.is_some())?;
        Some(format!("{field}: `{to}`: {problem}"))
    };
    named.filter_map(problem).collect()
}
