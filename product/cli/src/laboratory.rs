//! The commands of `meridian-lab`, which `meridian` runs in its own place.
//!
//! A gateway needs no simulator, so the laboratory is a program of its own beside this one. `meridian
//! up` becomes `meridian-lab up` by exec, under its own name: arguments, help, exit status, signals
//! and terminal are those of one process.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::anyhow;

/// The program.
pub const PROGRAM: &str = "meridian-lab";

/// Its commands, with their descriptions in `meridian --help`.
pub const COMMANDS: &[(&str, &str)] = &[
    ("flow", "Order the network transfers of a prefill/decode cluster"),
    ("demo", "Show in two minutes what Meridian gains: simulated, then on two fleets side by side"),
    ("up", "Start regions on this machine, with a load and a page that shows it"),
    ("chaos", "Inject faults into a fleet on this machine under load, and check the result"),
    ("engine", "Run a model of an inference engine behind vLLM's API, without a GPU"),
    ("bench", "Load an OpenAI endpoint and measure it at the client"),
    ("calibrate", "Measure the TTFT of a replica by prompt length, for `ms_per_token`"),
    ("experiment", "Reproduce a published comparison in simulation, next to the published figures"),
    ("what-if", "Simulate your own traffic on other fleets and under other policies"),
    ("plan", "Plan the placement of GPUs and their collectives"),
    ("workload", "Describe, write and convert workloads and traces"),
];

/// Commands of the laboratory that `meridian --help` does not list.
const HIDDEN: &[&str] = &["wan"];
/// Commands whose output describes the laboratory's commands too, if it is installed.
const OF_BOTH: &[&str] = &["completions", "man"];

/// Whether the laboratory runs this command line, which begins with the program's own name.
#[must_use]
pub fn is_asked(args: &[OsString]) -> bool {
    let word = |at: usize| args.get(at).and_then(|arg| arg.to_str()).unwrap_or_default();
    let has = |name: &str| HIDDEN.contains(&name) || COMMANDS.iter().any(|(one, _)| *one == name);
    has(word(1))
        || (word(1) == "help" && has(word(2)))
        || (OF_BOTH.contains(&word(1)) && find().is_some())
}

/// Replaces this process by the laboratory; returns only if that fails.
pub fn run_instead(args: &[OsString]) -> anyhow::Error {
    assert!(args.len() > 1, "a command line of the laboratory names a command");
    let command = args.get(1).map(|arg| arg.to_string_lossy()).unwrap_or_default();
    let Some(program) = find() else {
        return anyhow!(
            "meridian {command}: needs {PROGRAM}, which is neither beside this program nor in PATH; \
             install the package that both come in (pip install meridian-llm, or the .deb), or build \
             it with cargo build --release --package {PROGRAM}"
        );
    };
    let error = Command::new(&program).arg0("meridian").args(&args[1..]).exec();
    anyhow::Error::new(error).context(format!("cannot run {}", program.display()))
}

/// The program beside this one, or the first in PATH.
fn find() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(PROGRAM));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|folder| folder.join(PROGRAM));
    beside.into_iter().chain(in_path).find(|file| file.is_file())
}

/// Whether `meridian` became this process.
#[must_use]
pub fn is_instead() -> bool {
    std::env::args_os().next().is_some_and(|name| name == OsStr::new("meridian"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(args: &[&str]) -> bool {
        let args: Vec<OsString> = ["meridian"].iter().chain(args).map(OsString::from).collect();
        is_asked(&args)
    }

    // Commands of the gateway stay here, also where an argument is a command of the laboratory.
    #[test]
    fn only_its_own_commands_go_to_the_laboratory() {
        assert!(asks(&["up", "--for", "15s"]));
        assert!(asks(&["wan", "-c", "wan.yaml"]));
        assert!(asks(&["help", "bench"]));
        for args in [&[][..], &["--help"], &["gateway", "up"], &["help", "gateway"], &["ups"]] {
            assert!(!asks(args), "{args:?}");
        }
    }
}
