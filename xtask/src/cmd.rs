//! Runs other programs.
//!
//! `cargo run` sets variables about the package it built. If another cargo inherits them, build
//! scripts that watch them run again and rebuild half the workspace. They are removed here.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;

/// A command in `dir` with this process's environment, minus the variables that cargo added.
pub(crate) fn cmd(dir: &Path, program: impl AsRef<OsStr>, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir).args(args).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(added_by_cargo) {
            command.env_remove(name);
        }
    }
    command
}

/// The cargo that started this process, or the one in the path.
pub(crate) fn cargo(dir: &Path, args: &[&str]) -> Command {
    cmd(dir, std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), args)
}

/// Whether the command succeeded; its output goes to the terminal.
pub(crate) fn ends_well(mut command: Command) -> anyhow::Result<bool> {
    let name = command.get_program().to_string_lossy().into_owned();
    Ok(command.status().with_context(|| format!("cannot start {name}"))?.success())
}

/// The command's stdout; an error if it failed.
pub(crate) fn stdout_of(mut command: Command) -> anyhow::Result<String> {
    let args = command.get_args().map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ");
    let name = format!("{} {args}", command.get_program().to_string_lossy());
    let out = command.output().with_context(|| format!("cannot start {name}"))?;
    let errors = String::from_utf8_lossy(&out.stderr);
    anyhow::ensure!(out.status.success(), "{name} ended with {}: {}", out.status, errors.trim());
    String::from_utf8(out.stdout).with_context(|| format!("{name} printed bytes that are not text"))
}

fn added_by_cargo(name: &str) -> bool {
    const PREFIXES: [&str; 4] = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"];
    name == "CARGO_PRIMARY_PACKAGE" || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The variables about xtask's own package are removed; those a user sets for cargo stay.
    #[test]
    fn takes_out_only_what_cargo_run_added() {
        assert!(added_by_cargo("CARGO_MANIFEST_DIR"));
        assert!(added_by_cargo("CARGO_PKG_NAME"));
        assert!(!added_by_cargo("CARGO_TARGET_DIR"));
        assert!(!added_by_cargo("CARGO_HOME"));
        assert!(!added_by_cargo("PATH"));
    }

    // A program that fails is an error with its output, not an empty answer.
    #[test]
    fn a_failing_command_is_an_error_with_its_words() {
        let sh = cmd(Path::new("."), "sh", &["-c", "echo the cause >&2; exit 3"]);
        let error = stdout_of(sh).unwrap_err().to_string();
        assert!(error.contains("the cause") && error.contains('3'), "{error}");
    }
}
