//! The load: `wrk` with a script that posts a file.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail, ensure};

use super::cases::Case;
use super::http::Server;

const SCRIPT: &str = include_str!("../../peers/wrk.lua");

/// The results of one run of wrk.
#[derive(Debug, PartialEq)]
pub(super) struct Load {
    pub(super) requests: u64,
    pub(super) seconds: f64,
    /// Failed connects, reads and writes, unwanted statuses and timeouts.
    pub(super) errors: u64,
    /// Median time of the complete answer.
    pub(super) p50_us: f64,
}

/// Writes the script into `dir`.
pub(super) fn write_script(dir: &Path) -> anyhow::Result<()> {
    let path = dir.join("wrk.lua");
    std::fs::write(&path, SCRIPT).with_context(|| format!("cannot write {}", path.display()))
}

/// Loads `server` with `case` for `each`.
pub(super) fn run(
    server: &Server,
    case: &Case,
    each: Duration,
    dir: &Path,
) -> anyhow::Result<Load> {
    run_in(&[], server, case, each, dir)
}

/// The same, with `wrk` started by another program, as perf, with these arguments.
pub(super) fn run_in(
    wrapper: &[String],
    server: &Server,
    case: &Case,
    each: Duration,
    dir: &Path,
) -> anyhow::Result<Load> {
    let mut command = match wrapper {
        [] => Command::new("wrk"),
        [program, arguments @ ..] => {
            let mut command = Command::new(program);
            command.args(arguments).arg("wrk");
            command
        }
    };
    let output = command
        .arg("-t1")
        .arg(format!("-c{}", case.connections))
        .arg(format!("-d{}s", each.as_secs()))
        .args(["--timeout", "10s", "-s"])
        .arg(dir.join("wrk.lua"))
        .arg(server.url("/v1/chat/completions"))
        .arg("--")
        .arg(dir.join(case.body.file))
        .output()
        .context(if wrapper.is_empty() {
            "cannot start wrk: install it, on Debian by `apt-get install wrk`"
        } else {
            "cannot start perf: install it, on Debian by `apt-get install linux-perf`"
        })?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "wrk failed: {}", String::from_utf8_lossy(&output.stderr));
    match parse(&text) {
        Some(load) => Ok(load),
        None => bail!("wrk printed no result: {text}"),
    }
}

fn parse(text: &str) -> Option<Load> {
    let line = text.lines().find_map(|l| l.strip_prefix("result "))?;
    let numbers: Vec<f64> = line.split(' ').map(|n| n.parse().ok()).collect::<Option<_>>()?;
    let [requests, seconds, connect, read, write, status, timeout, p50_us, _] = numbers[..] else {
        return None;
    };
    let errors = (connect + read + write + status + timeout) as u64;
    Some(Load { requests: requests as u64, seconds, errors, p50_us })
}

#[cfg(test)]
mod tests {
    use super::*;

    // The script's last line is read whole or not at all.
    #[test]
    fn results_are_read() {
        let text = "Running 3s test\nresult 300 3.000000 0 1 0 2 0 110.0 300.5\n";
        let load = Load { requests: 300, seconds: 3.0, errors: 3, p50_us: 110.0 };
        assert_eq!(parse(text), Some(load));
        assert_eq!(parse("result 300 3.0"), None);
        assert_eq!(parse("nothing"), None);
    }
}
