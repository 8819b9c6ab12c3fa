//! The base of a change: the last commit at which `./x test --all` was green, and the files that
//! changed since.
//!
//! The commit's name is in a file of the repository, so every clone and CI have the same base. A
//! clone without the commit, or a machine without git, has none; then every file counts as changed.

use std::collections::BTreeSet;

use anyhow::Context as _;

use crate::cmd::{cmd, stdout_of};
use crate::house::House;

pub(crate) const FILE: &str = ".ci/all-green";
const VARIABLE: &str = "MERIDIAN_BASE";

/// The files that changed since a commit, those that are not committed too.
pub(crate) struct Base {
    /// The commit, and its origin.
    pub(crate) name: String,
    pub(crate) changed: Vec<String>,
}

impl Base {
    /// The base that the environment names, or the repository. An error says why there is none.
    pub(crate) fn find(house: &House) -> anyhow::Result<Base> {
        let asked = std::env::var(VARIABLE).ok().filter(|commit| !commit.is_empty());
        Base::of(house, asked)
    }

    fn of(house: &House, asked: Option<String>) -> anyhow::Result<Base> {
        let (commit, from) = match &asked {
            Some(commit) => (commit.as_str(), VARIABLE),
            None => (house.file(FILE)?.trim(), FILE),
        };
        let name = format!("{commit}^{{commit}}");
        let commit = git(house, &["rev-parse", "--verify", "--quiet", "--end-of-options", &name])
            .with_context(|| {
            format!("this clone has no commit {commit}, which {from} names")
        })?;
        let commit = commit.trim();
        // A file that moved counts at both of its places.
        let differ = ["diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", commit, "--"];
        let new = ["ls-files", "--others", "--exclude-standard", "--full-name", "-z"];
        let both = git(house, &differ)? + &git(house, &new)?;
        let paths: BTreeSet<&str> = both.split('\0').filter(|path| !path.is_empty()).collect();
        let changed = paths.into_iter().map(str::to_owned).collect();
        let short = &commit[..commit.len().min(12)];
        Ok(Base { name: format!("{short} ({from})"), changed })
    }
}

/// The commit of the checkout, if nothing in it differs from the commit.
pub(crate) fn clean(house: &House) -> anyhow::Result<String> {
    let changed = git(house, &["status", "--porcelain"])?;
    anyhow::ensure!(changed.is_empty(), "the checkout differs from its commit:\n{changed}");
    Ok(git(house, &["rev-parse", "HEAD"])?.trim().to_owned())
}

/// Makes a commit the base of further changes.
pub(crate) fn write(house: &House, commit: &str) -> anyhow::Result<()> {
    std::fs::write(house.root.join(FILE), format!("{commit}\n")).context(FILE)
}

fn git(house: &House, args: &[&str]) -> anyhow::Result<String> {
    stdout_of(cmd(&house.root, "git", args))
}

#[cfg(test)]
mod tests {
    use super::*;

    // A commit that this clone does not have is named with its origin, and so is a missing file.
    #[test]
    fn without_a_base_the_reason_is_said() {
        let mut house = House::open().unwrap();
        house.files.clear();
        let error = |house: &House, asked: Option<&str>| {
            let base = Base::of(house, asked.map(str::to_owned));
            base.err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(error(&house, None), "the repository has no text file .ci/all-green");
        house.files.push(crate::house::File::of(FILE, &format!("{}\n", "0".repeat(40))));
        let text = error(&house, None);
        assert!(text.contains("0000, which .ci/all-green names"), "{text}");
        assert!(error(&house, Some("--all")).contains("--all, which MERIDIAN_BASE names"));
    }
}
