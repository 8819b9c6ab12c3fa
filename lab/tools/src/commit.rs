//! The commit of a result.

use std::sync::OnceLock;

/// The commit that this program was built from, and its version.
static BUILT: OnceLock<(&str, &str)> = OnceLock::new();

/// Names the commit that this program was built from, empty if it is not known, and its version.
pub fn built(commit: &'static str, version: &'static str) {
    BUILT.get_or_init(|| (commit, version));
}

/// The commit of a result: the one that was built, with what git says about changes if the working
/// directory is its checkout. Without both it is the version.
#[must_use]
pub fn commit() -> String {
    let (commit, version) = BUILT.get().copied().unwrap_or(("", env!("CARGO_PKG_VERSION")));
    named(commit, version, git_describes())
}

/// Digits of a commit that identify it.
const DIGITS: usize = 7;

fn named(commit: &str, version: &str, git: Option<String>) -> String {
    let short = commit.get(..DIGITS).unwrap_or(commit);
    match git {
        // A working directory of something else says nothing about this program.
        Some(git) if git.contains(short) => git,
        _ if commit.is_empty() => version.to_owned(),
        _ => commit.to_owned(),
    }
}

fn git_describes() -> Option<String> {
    let git = std::process::Command::new("git").args(["describe", "--always", "--dirty"]).output();
    let out = git.ok().filter(|out| out.status.success())?;
    Some(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

/// Whether the working directory has changes of tracked files; `false` where git can't say.
#[must_use]
pub fn modified() -> bool {
    let args = ["status", "--porcelain", "--untracked-files=no"];
    let git = std::process::Command::new("git").args(args).output();
    git.is_ok_and(|out| out.status.success() && !out.stdout.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Defect command-line: a result names the commit that was built, or the version, and never `unknown`.
    #[test]
    fn results_have_a_commit() {
        let git = |text: &str| Some(text.to_owned());
        let built = "8218432f1234";
        assert_eq!(named(built, "0.1.0", git("8218432f-dirty")), "8218432f-dirty");
        assert_eq!(named(built, "0.1.0", git("v0.1.0-5-g8218432f")), "v0.1.0-5-g8218432f");
        assert_eq!(named(built, "0.1.0", git("deadbeef")), built, "that is another repository");
        assert_eq!(named(built, "0.1.0", None), built);
        assert_eq!(named("", "0.1.0", None), "0.1.0");
    }
}
