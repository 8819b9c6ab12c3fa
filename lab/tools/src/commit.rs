//! The commit of a result.

/// The commit of the working directory, for result files.
#[must_use]
pub fn commit() -> String {
    let git = std::process::Command::new("git").args(["describe", "--always", "--dirty"]).output();
    match git {
        Ok(out) if out.status.success() => String::from_utf8_lossy(&out.stdout).trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

/// Whether the working directory has changes of tracked files; `false` where git can't say.
#[must_use]
pub fn modified() -> bool {
    let args = ["status", "--porcelain", "--untracked-files=no"];
    let git = std::process::Command::new("git").args(args).output();
    git.is_ok_and(|out| out.status.success() && !out.stdout.is_empty())
}
