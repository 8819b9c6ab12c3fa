//! Puts the commit into the binary, for `meridian --version`.
//!
//! `MERIDIAN_COMMIT` names it where the source is not a git checkout. Without both, the version stands
//! alone.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=MERIDIAN_COMMIT");
    let given = std::env::var("MERIDIAN_COMMIT").ok().filter(|commit| !commit.is_empty());
    let commit = given.or_else(head).unwrap_or_default();
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let version = if commit.is_empty() { version } else { format!("{version} ({commit})") };
    println!("cargo:rustc-env=MERIDIAN_COMMIT={commit}");
    println!("cargo:rustc-env=MERIDIAN_VERSION={version}");
}

/// The commit of the checkout. Cargo builds again when git moves HEAD: each move adds a line to
/// its log.
fn head() -> Option<String> {
    let log = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"])?;
    println!("cargo:rerun-if-changed={log}");
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(args: &[&str]) -> Option<String> {
    let out = Command::new("git").args(args).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}
