//! The thread that formats and writes records.
//!
//! It writes lines in batches: all that are queued, at most 64 KiB at once. After the first record
//! it pauses for a few milliseconds, so that busy requests seldom have to wake it. A sink that
//! cannot be written loses the lines of the batch, which are counted, and is tried again with the
//! next one; the log reports the first failure and the end of it.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use meridian_config::{self as config, AccessLog, LogFormat};
use prometheus_client::metrics::counter::Counter;

use super::export::Traces;
use super::file::LogFile;
use super::queue::{Dropped, Message, Sections};
use super::recent::Recent;
use super::{journal, line, otlp};
use crate::facts::Record;
use crate::facts::blocks::Spans;
use crate::model_ids::ModelIds;

/// Bytes after which lines are written, even if more are queued.
const BATCH: usize = 64 * 1024;
/// Time for further records to arrive.
const PAUSE: Duration = Duration::from_millis(10);

/// The fields of the configuration, for messages.
pub(super) const ACCESS_LOG: &str = "access_log.to";
pub(super) const JOURNAL: &str = "journal.to";

/// The writer's end of the queue, and its sinks.
pub(super) struct Writer {
    pub(super) sinks: Sinks,
    pub(super) dropped: Dropped,
    pub(super) traces: Traces,
    pub(super) recent: Arc<Recent>,
    pub(super) spans: Arc<Spans>,
    pub(super) model_ids: Arc<ModelIds>,
    pub(super) region: String,
}

impl Writer {
    /// Writes records until it is stopped, or until the queue has no sender.
    pub(super) fn run(mut self, queue: &Receiver<Message>) {
        while let Ok(first) = queue.recv() {
            if matches!(first, Message::Record(_)) {
                std::thread::sleep(PAUSE);
            }
            for message in std::iter::once(first).chain(queue.try_iter()) {
                match message {
                    Message::Record(record) => self.write(record),
                    Message::Configure(sections, taken, done) => {
                        self.flush();
                        if taken.swap(true, Ordering::AcqRel) {
                            continue;
                        }
                        let _ = done.send(self.sinks.configure(*sections, &self.dropped));
                    }
                    Message::Reopen(done) => {
                        let _ = done.send(self.reopen());
                    }
                    Message::Stop(done) => {
                        let mut problems = self.flush();
                        problems.extend(self.traces.stop().err());
                        let _ = done.send(problems);
                        return;
                    }
                }
            }
            self.flush();
        }
    }

    fn write(&mut self, mut record: Box<Record>) {
        let model = record.asked.as_ref().and_then(|asked| self.model_ids.name(asked.model));
        let model = model.as_deref();
        if let Some((format, sink)) = &mut self.sinks.access_log {
            line::write(*format, &record, model, &mut sink.lines);
            sink.added();
        }
        if let Some(sink) = &mut self.sinks.journal
            && journal::write(&mut record, &self.spans, &self.region, model, &mut sink.lines)
        {
            sink.added();
        }
        if let Some(trace) = &record.times.trace {
            self.traces.push(otlp::messages(&record, trace, model), trace.to.clone());
        }
        self.recent.add(record);
    }

    fn flush(&mut self) -> Vec<String> {
        self.sinks.all().filter_map(|sink| sink.flush().err()).collect()
    }

    /// Writes all lines to the old files, and opens the new ones.
    fn reopen(&mut self) -> Vec<String> {
        self.flush();
        self.sinks.all().filter_map(|sink| sink.reopen().err()).collect()
    }
}

/// The files of lines, as the configuration has them.
#[derive(Default)]
pub(super) struct Sinks {
    sections: Sections,
    access_log: Option<(LogFormat, Sink)>,
    journal: Option<Sink>,
}

impl Sinks {
    /// Opens the files of sections that differ. Returns the problems; if there are any, everything
    /// stays as it is.
    pub(super) fn configure(&mut self, sections: Sections, dropped: &Dropped) -> Vec<String> {
        let mut problems = Vec::new();
        let log = (sections.access_log != self.sections.access_log)
            .then(|| open_log(sections.access_log.as_ref(), dropped, &mut problems));
        let journal = (sections.journal != self.sections.journal)
            .then(|| open_journal(sections.journal.as_ref(), dropped, &mut problems));
        if problems.is_empty() {
            self.access_log = log.unwrap_or_else(|| self.access_log.take());
            self.journal = journal.unwrap_or_else(|| self.journal.take());
            self.sections = sections;
        }
        problems
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Sink> {
        self.access_log.as_mut().map(|(_, sink)| sink).into_iter().chain(&mut self.journal)
    }
}

fn open_log(
    section: Option<&AccessLog>,
    dropped: &Dropped,
    problems: &mut Vec<String>,
) -> Option<(LogFormat, Sink)> {
    let section = section?;
    let out = match section.is_stdout() {
        true => Out::Stdout,
        false => {
            open(ACCESS_LOG, LogFile::open(&section.to, String::new(), section.rotate), problems)?
        }
    };
    Some((section.format, Sink::new(ACCESS_LOG, out, dropped.access_log.clone())))
}

fn open_journal(
    section: Option<&config::Journal>,
    dropped: &Dropped,
    problems: &mut Vec<String>,
) -> Option<Sink> {
    let section = section?;
    let file = LogFile::open(&section.to, journal::header(), section.rotate);
    Some(Sink::new(JOURNAL, open(JOURNAL, file, problems)?, dropped.journal.clone()))
}

fn open(
    field: &'static str,
    file: std::io::Result<LogFile>,
    problems: &mut Vec<String>,
) -> Option<Out> {
    file.map(Out::File).map_err(|error| problems.push(format!("{field}: {error}"))).ok()
}

/// The destination of lines.
pub(super) enum Out {
    File(LogFile),
    Stdout,
}

/// One file of lines, or the standard output.
pub(super) struct Sink {
    /// The configuration's field.
    field: &'static str,
    out: Out,
    /// Lines that are not written yet.
    lines: Vec<u8>,
    /// Their number.
    count: u64,
    dropped: Counter,
    has_failed: bool,
}

impl Sink {
    pub(super) fn new(field: &'static str, out: Out, dropped: Counter) -> Sink {
        Sink { field, out, lines: Vec::new(), count: 0, dropped, has_failed: false }
    }

    /// A line was appended to `lines`.
    fn added(&mut self) {
        assert!(self.lines.ends_with(b"\n"), "the next record would end this one's line");
        self.count += 1;
        if self.lines.len() >= BATCH {
            let _ = self.flush();
        }
    }

    /// Writes the lines, or drops them. Logs the first of several failures.
    fn flush(&mut self) -> Result<(), String> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let written = match &mut self.out {
            Out::File(file) => file.append(&self.lines),
            Out::Stdout => {
                let mut out = std::io::stdout().lock();
                out.write_all(&self.lines).and_then(|()| out.flush())
            }
        };
        let count = std::mem::take(&mut self.count);
        assert!(count > 0, "lines that were not counted cannot be reported as lost");
        self.lines.clear();
        // A batch may have ended with a long line.
        self.lines.shrink_to(2 * BATCH);
        let field = self.field;
        match written {
            Ok(()) => {
                if std::mem::take(&mut self.has_failed) {
                    tracing::info!(field, "lines are written again");
                }
                Ok(())
            }
            Err(error) => {
                self.dropped.inc_by(count);
                if !std::mem::replace(&mut self.has_failed, true) {
                    tracing::error!(field, %error, "lines cannot be written, and are lost until it works again");
                }
                Err(format!("{field}: {error}"))
            }
        }
    }

    fn reopen(&mut self) -> Result<(), String> {
        match &mut self.out {
            Out::File(file) => file.reopen().map_err(|error| format!("{}: {error}", self.field)),
            Out::Stdout => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::answered;
    use crate::record::queue::Records;

    // A disk that is full loses lines, which are counted, and stops nothing.
    #[test]
    fn a_full_disk() {
        let dropped = Counter::default();
        // A folder that is gone is as good as a full disk.
        let folder = std::env::temp_dir().join(format!("meridian-full-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("log");
        let file = LogFile::open(path.to_str().unwrap(), String::new(), None).unwrap();
        let mut sink = Sink::new("access_log.to", Out::File(file), dropped.clone());
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(sink.reopen().is_err());
        for _ in 0..3 {
            sink.lines.extend_from_slice(b"line\n");
            sink.added();
        }
        assert!(sink.flush().is_err());
        assert_eq!(dropped.get(), 3);
        std::fs::create_dir_all(&folder).unwrap();
        sink.lines.extend_from_slice(b"line\n");
        sink.added();
        assert_eq!(sink.flush(), Ok(()));
        assert_eq!((std::fs::read_to_string(&path).unwrap(), dropped.get()), ("line\n".into(), 3));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    // Stopping writes everything that is queued; records after that are dropped and counted.
    #[test]
    fn stopped() {
        let path = std::env::temp_dir().join(format!("meridian-stopped-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let yaml = format!("version: 1\naccess_log: {{to: {path:?}}}\n");
        let sections = Sections::of(&config::Gateway::read(&yaml).expect("is valid"));
        let dropped = Dropped::default();
        let counter = dropped.access_log.clone();
        let (records, queue) = Records::new(64, 3, [1, 2], dropped.clone());
        let mut sinks = Sinks::default();
        assert_eq!(sinks.configure(sections.clone(), &dropped), Vec::<String>::new());
        records.uses(&sections);
        let writer = Writer {
            sinks,
            dropped,
            traces: Traces::new(Vec::new(), Counter::default()),
            recent: records.recent.clone(),
            spans: records.spans.clone(),
            model_ids: Arc::default(),
            region: "local".to_owned(),
        };
        let thread = std::thread::spawn(move || writer.run(&queue));
        for _ in 0..50 {
            records.push(Box::new(answered()));
        }
        records.stop();
        thread.join().unwrap();
        records.push(Box::new(answered()));
        let written = std::fs::read_to_string(&path).unwrap();
        assert_eq!((written.lines().count(), counter.get()), (50, 1));
        std::fs::remove_file(&path).unwrap();
    }
}
