//! One process of a run: its output and its input. It is killed when it is dropped.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::Value;

use super::counters;

/// The longest wait for a line: longer than any run.
const PATIENCE: Duration = Duration::from_secs(300);

/// A running process.
pub(super) struct Node {
    name: String,
    child: Child,
    lines: Receiver<String>,
    log: PathBuf,
}

/// What a host has measured.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Part {
    /// By request: when its last byte had been handed over.
    pub(super) ends: BTreeMap<u32, f64>,
    /// By batch: when its last exchange ended.
    pub(super) batches: Vec<f64>,
    /// The time of each exchange, in the direction that the host sends.
    pub(super) exchanges: Vec<f64>,
    pub(super) gate: GateCounts,
}

/// Counters of a host's gate.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct GateCounts {
    pub(super) gated_bytes: u64,
    pub(super) problems: u64,
}

impl Node {
    /// Starts a process whose errors go to `log`.
    pub(super) fn start(name: &str, command: &mut Command, log: PathBuf) -> anyhow::Result<Node> {
        let file = std::fs::File::create(&log);
        let file = file.with_context(|| format!("{}: cannot be made", log.display()))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
        let mut child = command.spawn().with_context(|| format!("{name}: cannot be started"))?;
        let stdout = child.stdout.take().context("its output is a pipe")?;
        let (send, lines) = channel();
        std::thread::spawn(move || {
            let all = BufReader::new(stdout).lines().map_while(Result::ok);
            all.take_while(|line| send.send(line.clone()).is_ok()).for_each(drop);
        });
        Ok(Node { name: name.to_owned(), child, lines, log })
    }

    /// Where its engine is.
    pub(super) fn ready(&self) -> anyhow::Result<Value> {
        self.said("ready")
    }

    /// Its measurements, after its part of the run.
    pub(super) fn done(&self) -> anyhow::Result<Part> {
        Ok(serde_json::from_value(self.said("done")?)?)
    }

    /// Ticks of the processor that it has used.
    pub(super) fn ticks(&self) -> anyhow::Result<u64> {
        counters::process(self.child.id())
    }

    pub(super) fn tell(&mut self, message: &Value) -> anyhow::Result<()> {
        let stdin = self.child.stdin.as_mut().context("its input is a pipe")?;
        let written = writeln!(stdin, "{message}");
        written.with_context(|| format!("{}: has ended; {}", self.name, self.tail()))
    }

    /// The next line that starts with `text`; other lines are passed over.
    pub(super) fn line(&self, text: &str) -> anyhow::Result<String> {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(text) => return Ok(line),
                Ok(_) => {}
                Err(_) => bail!("{}: did not say `{text}`; {}", self.name, self.tail()),
            }
        }
    }

    fn said(&self, what: &str) -> anyhow::Result<Value> {
        let line = self.line(&format!("{{\"{what}\":"))?;
        let mut value: Value = serde_json::from_str(&line)?;
        Ok(value[what].take())
    }

    /// The last lines of its log.
    fn tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = lines[lines.len().saturating_sub(12)..].join("\n");
        format!("the end of {}:\n{last}", self.log.display())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
