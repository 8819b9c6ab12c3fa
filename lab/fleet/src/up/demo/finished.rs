//! Finished requests, read from the files that the loads write while they run.
//!
//! A load shows quantiles of each second, and those of several loads cannot be merged. So the demo
//! reads the requests themselves. The format belongs to the load generator; only the fields that are
//! used here are read.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::{Error, Result};

/// A request that ended, as its client saw it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Finished {
    /// When its end was read, since the start of the clients.
    pub(super) at: Duration,
    /// Index of its client's region.
    pub(super) region: usize,
    /// Whether it has a complete answer.
    pub(super) ok: bool,
    pub(super) ttft_ms: Option<f64>,
    /// Until the end of the answer.
    pub(super) e2e_ms: f64,
    pub(super) prompt_tokens: u64,
    pub(super) cached_tokens: u64,
}

/// A line of the file.
#[derive(Deserialize)]
struct FinishedLine {
    ttft_ms: Option<f64>,
    e2e_ms: f64,
    error: Option<IgnoredAny>,
    aborted: bool,
    prompt_tokens: u64,
    cached_tokens: Option<u64>,
}

/// Reads the file of one region's load as it grows.
pub(super) struct FinishedFile {
    path: PathBuf,
    region: usize,
    /// None until the load has made the file.
    file: Option<BufReader<File>>,
    /// The line that is not complete yet.
    line: Vec<u8>,
}

impl FinishedFile {
    pub(super) fn new(path: PathBuf, region: usize) -> FinishedFile {
        FinishedFile { path, region, file: None, line: Vec::new() }
    }

    /// Adds the requests that were written since the last call.
    pub(super) fn read(&mut self, at: Duration, to: &mut Vec<Finished>) -> Result<()> {
        let wrong = |error| Error::file("reading", &self.path)(error);
        if self.file.is_none() {
            self.file = match File::open(&self.path) {
                Ok(file) => Some(BufReader::new(file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(wrong(error)),
            };
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        loop {
            file.read_until(b'\n', &mut self.line).map_err(wrong)?;
            if !self.line.ends_with(b"\n") {
                return Ok(());
            }
            let line: FinishedLine = serde_json::from_slice(&self.line)
                .map_err(|why| wrong(io::Error::new(io::ErrorKind::InvalidData, why)))?;
            self.line.clear();
            to.push(Finished {
                at,
                region: self.region,
                ok: line.error.is_none() && !line.aborted,
                ttft_ms: line.ttft_ms,
                e2e_ms: line.e2e_ms,
                prompt_tokens: line.prompt_tokens,
                cached_tokens: line.cached_tokens.unwrap_or(0),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    // A file that is not there yet has no requests; half a line waits for its other half.
    #[test]
    fn lines_are_read_once_and_whole() {
        let name = format!("meridian-finished-{}.jsonl", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let (mut finished, mut all) = (FinishedFile::new(path.clone(), 2), Vec::new());
        finished.read(Duration::ZERO, &mut all).expect("a missing file is empty");
        let line = |error| {
            format!(
                "{{\"sent_ms\":1.0,\"ttft_ms\":40.5,\"e2e_ms\":90.0,\"error\":{error},\"aborted\":false,\
                 \"forwarded\":true,\"prompt_tokens\":7,\"cached_tokens\":null,\"reply_tokens\":3}}\n"
            )
        };
        let text = line("null") + &line("\"timeout\"");
        let (first, second) = text.split_at(text.len() - 9);
        let mut file = File::create(&path).expect("can be made");
        file.write_all(first.as_bytes()).expect("can be written");
        finished.read(Duration::from_secs(1), &mut all).expect("is read");
        assert_eq!(all.len(), 1);
        assert!(all[0].ok && all[0].ttft_ms == Some(40.5) && all[0].region == 2);
        file.write_all(second.as_bytes()).expect("can be written");
        finished.read(Duration::from_secs(2), &mut all).expect("is read");
        assert!(all.len() == 2 && !all[1].ok && all[1].at == Duration::from_secs(2));
        std::fs::write(&path, "nonsense\n").expect("can be written");
        let failed = FinishedFile::new(path.clone(), 0).read(Duration::ZERO, &mut all);
        assert!(failed.is_err_and(|error| error.to_string().contains("finished")));
        std::fs::remove_file(&path).expect("can be removed");
    }
}
