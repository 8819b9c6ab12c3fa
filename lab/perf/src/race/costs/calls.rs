//! System calls of a program, counted by strace.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// strace says this for each process it counts.
const ATTACHED: &str = "attached";
/// Timeout for it.
const START: Duration = Duration::from_secs(10);

/// A running strace.
pub(super) struct Calls {
    child: Child,
    table: std::path::PathBuf,
}

impl Calls {
    /// Counts the calls of `processes` and their threads from now on.
    pub(super) fn begin(processes: &[u32], dir: &Path) -> anyhow::Result<Calls> {
        let (table, log) = (dir.join("strace.txt"), dir.join("strace.log"));
        let mut command = Command::new("strace");
        command.args(["-f", "-c", "-U", "calls,name", "-o"]).arg(&table);
        for pid in processes {
            command.args(["-p", &pid.to_string()]);
        }
        let output = std::fs::File::create(&log)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output);
        let child =
            command.spawn().context("cannot start strace: on Debian, `apt-get install strace`")?;
        let mut calls = Calls { child, table };
        let deadline = std::time::Instant::now() + START;
        loop {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            if said.matches(ATTACHED).count() >= processes.len() {
                return Ok(calls);
            }
            let ended = calls.child.try_wait()?;
            ensure!(
                ended.is_none() && std::time::Instant::now() < deadline,
                "strace did not attach to the program: {}",
                said.trim()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The calls since then, by name.
    pub(super) fn end(mut self) -> anyhow::Result<BTreeMap<String, u64>> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("strace has no process")?, Signal::INT)?;
        self.child.wait()?;
        let text = std::fs::read_to_string(&self.table)
            .with_context(|| format!("strace wrote no {}", self.table.display()))?;
        Ok(parse(&text))
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        // After `end`, it has exited.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Rows of a number and a name; the last is the total.
fn parse(table: &str) -> BTreeMap<String, u64> {
    let row = |line: &str| {
        let mut cells = line.split_whitespace();
        let calls = cells.next()?.parse().ok()?;
        let name = cells.next_back()?.to_owned();
        (name != "total").then_some((name, calls))
    };
    table.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Rows are read, and neither the heading nor the total.
    #[test]
    fn tables_are_read() {
        let table = "    calls syscall\n--------- ----------------\n       12 writev\n        3 read\n\
                     --------- ----------------\n       15 total\n";
        let calls = BTreeMap::from([("read".to_owned(), 3), ("writev".to_owned(), 12)]);
        assert_eq!(parse(table), calls);
    }
}
