//! Instructions of a program, counted by the processor, or by callgrind where the machine has no such
//! counters, as many virtual ones.
//!
//! Callgrind runs the program in its own interpreter, a fiftieth as fast, and sees the user's
//! instructions only. Like strace, it gives a program under load more events in each wait.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

/// The counters, in the order of the results.
const EVENTS: &str = "instructions:u,instructions:k";
/// The file of perf's counts.
const TABLE: &str = "perf-stat.txt";

/// Instructions since a moment: the user's, and the kernel's if they are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Instructions {
    pub(super) user: f64,
    pub(super) kernel: Option<f64>,
}

impl Instructions {
    /// Of one of so many requests.
    pub(super) fn each(self, requests: f64) -> Instructions {
        let Instructions { user, kernel } = self;
        Instructions { user: user / requests, kernel: kernel.map(|count| count / requests) }
    }
}

/// The way to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Perf,
    Callgrind,
}

impl Way {
    /// Perf, if it has the counters here.
    pub(super) fn find() -> Way {
        let output = Command::new("perf").args(["stat", "-x,", "-e", EVENTS, "true"]).output();
        let table = output.map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
        match table.ok().and_then(|table| parse_perf(&table)) {
            Some(_) => Way::Perf,
            None => Way::Callgrind,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Perf => "perf stat",
            Way::Callgrind => "callgrind",
        }
    }

    /// The program that the counted one runs in, with its arguments.
    pub(super) fn wrapper(self, dir: &Path) -> Vec<String> {
        match self {
            Way::Perf => Vec::new(),
            Way::Callgrind => {
                let out = dir.join("callgrind.%p").display().to_string();
                let out = format!("--callgrind-out-file={out}");
                ["valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no", &out]
                    .map(str::to_owned)
                    .to_vec()
            }
        }
    }

    /// Counts from now on. Returns the program to run the load in, with its arguments: perf counts
    /// until the load ends.
    pub(super) fn begin(self, processes: &[u32], dir: &Path) -> anyhow::Result<Vec<String>> {
        match self {
            Way::Perf => {
                let pids: Vec<String> = processes.iter().map(u32::to_string).collect();
                let table = dir.join(TABLE).display().to_string();
                let arguments = [
                    "perf",
                    "stat",
                    "-x,",
                    "-e",
                    EVENTS,
                    "-p",
                    &pids.join(","),
                    "-o",
                    &table,
                    "--",
                ];
                Ok(arguments.map(str::to_owned).to_vec())
            }
            Way::Callgrind => {
                for old in dumps(dir)? {
                    std::fs::remove_file(old)?;
                }
                control(&["-i", "on"], processes)?;
                control(&["-z"], processes)?;
                Ok(Vec::new())
            }
        }
    }

    /// The instructions since then.
    pub(super) fn end(self, processes: &[u32], dir: &Path) -> anyhow::Result<Instructions> {
        match self {
            Way::Perf => {
                let text = std::fs::read_to_string(dir.join(TABLE))?;
                parse_perf(&text).with_context(|| format!("perf counted nothing: {text}"))
            }
            Way::Callgrind => {
                control(&["-d"], processes)?;
                let mut user = 0.0;
                for path in dumps(dir)? {
                    let text = std::fs::read_to_string(&path)?;
                    user += parse_callgrind(&text)
                        .with_context(|| format!("{} has no total", path.display()))?;
                }
                ensure!(user > 0.0, "callgrind counted nothing");
                Ok(Instructions { user, kernel: None })
            }
        }
    }
}

/// Tells the callgrind of each process.
fn control(command: &[&str], processes: &[u32]) -> anyhow::Result<()> {
    let pids = processes.iter().map(u32::to_string);
    let output = Command::new("callgrind_control").args(command).args(pids).output();
    let output =
        output.context("cannot start callgrind_control: on Debian, `apt-get install valgrind`")?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let ok = output.status.success() && !said.contains("Error");
    ensure!(ok, "callgrind_control {} failed: {said}", command.join(" "));
    Ok(())
}

/// The files that callgrind wrote on command: `callgrind.PID.NUMBER`.
fn dumps(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for file in std::fs::read_dir(dir)? {
        let path = file?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let parts = name.as_deref().map(|name| name.split('.').collect::<Vec<_>>());
        if parts.is_some_and(|parts| parts.len() == 3 && parts[0] == "callgrind") {
            found.push(path);
        }
    }
    Ok(found)
}

/// `NUMBER,,instructions:u,...`; a counter that is not supported has no number.
fn parse_perf(table: &str) -> Option<Instructions> {
    let of = |event: &str| {
        let mut rows = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let row = rows.find(|row| row.get(2).is_some_and(|name| name.starts_with(event)))?;
        row[0].parse().ok()
    };
    Some(Instructions { user: of("instructions:u")?, kernel: of("instructions:k") })
}

/// The line `totals: NUMBER`.
fn parse_callgrind(text: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix("totals:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Counters are read by name, and one without a number is not counted.
    #[test]
    fn perf_is_read() {
        let table = "# started on Sat\n\n1200,,instructions:u,900,100.00,,\n\
                     <not supported>,,instructions:k,0,100.00,,\n";
        assert_eq!(parse_perf(table), Some(Instructions { user: 1200.0, kernel: None }));
        let both = table.replace("<not supported>", "300");
        let each = parse_perf(&both).unwrap().each(3.0);
        assert_eq!(each, Instructions { user: 400.0, kernel: Some(100.0) });
        assert_eq!(parse_perf(&table.replace("1200", "<not supported>")), None);
    }

    // A dump's total is read, and only dumps are: not the file that callgrind writes at its end.
    #[test]
    fn callgrind_is_read() {
        assert_eq!(parse_callgrind("events: Ir\nsummary: 5\n\ntotals: 7\n"), Some(7.0));
        assert_eq!(parse_callgrind("events: Ir\n"), None);
        let dir = std::env::temp_dir().join(format!("meridian-dumps-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for name in ["callgrind.12", "callgrind.12.1", "counts.so.1"] {
            std::fs::write(dir.join(name), "").unwrap();
        }
        assert_eq!(dumps(&dir).unwrap(), [dir.join("callgrind.12.1")]);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
