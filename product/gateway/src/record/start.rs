//! Opens the sinks of a configuration and starts their writer.

use std::sync::Arc;

use meridian_config::{ConfigError, Gateway as Config};
use prometheus_client::metrics::counter::Counter;

use super::export::Traces;
use super::file;
use super::queue::{Dropped, MOST_QUEUED, Records, Sections};
use super::writer::{ACCESS_LOG, JOURNAL, Sinks, Writer};
use crate::error::Error;
use crate::model_ids::ModelIds;

/// Opens the configured files and starts the writer. `dropped` gives the counter of a sink, and
/// `seed` is random.
///
/// # Errors
/// All files that can't be opened.
pub(crate) fn start(
    config: &Config,
    model_ids: &Arc<ModelIds>,
    seed: [u64; 2],
    dropped: impl Fn(&'static str) -> Counter,
) -> Result<Arc<Records>, Error> {
    let found = problems(config);
    if !found.is_empty() {
        return Err(ConfigError::from(found).into());
    }
    let dropped = Dropped {
        access_log: dropped("access_log"),
        journal: dropped("journal"),
        traces: dropped("traces"),
    };
    let (records, queue) = Records::new(MOST_QUEUED, config.explain_keep, seed, dropped.clone());
    let resource = vec![
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id", format!("{}-{:016x}", config.region, seed[0])),
        ("meridian.region", config.region.clone()),
    ];
    let (sections, mut sinks) = (Sections::of(config), Sinks::default());
    let problems = sinks.configure(sections.clone(), &dropped);
    if !problems.is_empty() {
        return Err(ConfigError::from(problems).into());
    }
    records.uses(&sections);
    let writer = Writer {
        sinks,
        traces: Traces::new(resource, dropped.traces.clone()),
        dropped,
        recent: records.recent.clone(),
        spans: records.spans.clone(),
        model_ids: model_ids.clone(),
        region: config.region.clone(),
    };
    let thread = std::thread::Builder::new().name("records".to_owned());
    thread
        .spawn(move || writer.run(&queue))
        .map_err(|source| Error::Io { what: "starting the thread of the records", source })?;
    Ok(Arc::new(records))
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
