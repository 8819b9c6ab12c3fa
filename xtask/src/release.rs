//! `./x release`: everything of a release but the upload.
//!
//! The tag, the version and the changelog must agree, and the packages come from the tagged commit.
//! Beside the packages, their checksums and the SBOM, it writes the notes of the release and a statement
//! of provenance: which commit and which command made which bytes. The release workflow signs that
//! statement and uploads all of it.

use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use crate::cmd::{cmd, stdout_of};
use crate::dist::{self, place::Place, sums};
use crate::house::House;

const NOTES: &str = "RELEASE_NOTES.md";
const PROVENANCE: &str = "provenance.json";
const REPOSITORY: &str = "https://github.com/meridian-llm/meridian";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The tag: v and the version
    tag: String,
    /// Without the tag, of a tree with changes, and built quickly: to see whether it would work
    #[arg(long)]
    rehearsal: bool,
}

pub(crate) fn run(house: &House, args: &Args) -> anyhow::Result<bool> {
    let version = Place::open(house)?.version;
    ensure!(
        args.tag == format!("v{version}"),
        "the tag {} is not v and the version of Cargo.toml, {version}; change one of them",
        args.tag
    );
    let changelog = std::fs::read_to_string(house.root.join("CHANGELOG.md"))?;
    let name = if args.rehearsal { "Unreleased" } else { &version };
    let notes = section(&changelog, name)?;
    let commit = stdout_of(cmd(&house.root, "git", &["rev-parse", "HEAD"]))?.trim().to_owned();
    if !args.rehearsal {
        ensure_tagged(&house.root, &args.tag, &commit)?;
    }
    let place = dist::release(house, args.rehearsal)?;
    std::fs::write(place.out.join(NOTES), notes).context(NOTES)?;
    let statement = provenance(&sums::read(&place)?, &args.tag, &commit);
    let text = serde_json::to_string_pretty(&statement)? + "\n";
    std::fs::write(place.out.join(PROVENANCE), text).context(PROVENANCE)?;
    println!("\n{} is ready in {}", args.tag, place.out.display());
    Ok(true)
}

/// The packages must come from what the tag names, and from nothing else.
fn ensure_tagged(root: &Path, tag: &str, commit: &str) -> anyhow::Result<()> {
    let changed = stdout_of(cmd(root, "git", &["status", "--porcelain"]))?;
    ensure!(
        changed.trim().is_empty(),
        "the tree has changes; commit them before the tag:\n{changed}"
    );
    let of_tag = format!("refs/tags/{tag}^{{commit}}");
    match stdout_of(cmd(root, "git", &["rev-parse", "--verify", "--quiet", &of_tag])) {
        Ok(tagged) if tagged.trim() == commit => Ok(()),
        Ok(tagged) => bail!("{tag} is {}, and this is {commit}; check the tag out", tagged.trim()),
        Err(_) => bail!("there is no tag {tag}; make it, or use --rehearsal"),
    }
}

/// The section of a version in the changelog, without its heading.
fn section(changelog: &str, version: &str) -> anyhow::Result<String> {
    let heading = format!("## [{version}]");
    let mut lines = changelog.lines().skip_while(|line| !line.starts_with(&heading));
    let first = lines.next().with_context(|| {
        format!(
            "CHANGELOG.md has no section {heading}; give the changes since the last release one"
        )
    })?;
    if version != "Unreleased" {
        let date = first.strip_prefix(&heading).and_then(|rest| rest.strip_prefix(" - "));
        let is_date = date.is_some_and(|date| date.len() == 10 && date.split('-').count() == 3);
        ensure!(is_date, "CHANGELOG.md: `{first}` has no date; write {heading} - YYYY-MM-DD");
    }
    let is_end = |line: &&str| line.starts_with("## ") || line.starts_with('[');
    let body: Vec<&str> = lines.take_while(|line| !is_end(line)).collect();
    let body = body.join("\n");
    ensure!(!body.trim().is_empty(), "CHANGELOG.md: {heading} is empty; say what changed");
    Ok(body.trim().to_owned() + "\n")
}

/// Which commit and command made the files: an in-toto statement with SLSA's predicate.
fn provenance(sums: &[(String, String)], tag: &str, commit: &str) -> Value {
    let subject = |(name, sum): &(String, String)| json!({"name": name, "digest": {"sha256": sum}});
    let subjects: Vec<Value> = sums.iter().map(subject).collect();
    let source = json!({
        "uri": format!("git+{REPOSITORY}@refs/tags/{tag}"),
        "digest": {"gitCommit": commit}
    });
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": format!("{REPOSITORY}/blob/main/CONTRIBUTING.md#releases"),
                "externalParameters": {"command": format!("./x release {tag}")},
                "resolvedDependencies": [source]
            },
            "runDetails": {"builder": {"id": format!("{REPOSITORY}/actions")}}
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGELOG: &str = "# Changelog\n\n## [Unreleased]\n\nSoon.\n\n## [0.2.0] - 2026-12-24\n\n### Added\n\n\
                             - A thing.\n\n## [0.1.0]\n\n- First.\n\n## [0.0.9] - 2026-01-01\n\n[0.2.0]: x\n";

    // Notes are the section of the version; one without a date, text or heading is refused.
    #[test]
    fn sections_of_the_changelog() {
        let of = |version| section(CHANGELOG, version);
        assert_eq!(of("0.2.0").expect("is there"), "### Added\n\n- A thing.\n");
        assert_eq!(of("Unreleased").expect("is there"), "Soon.\n");
        let why = |version| of(version).expect_err("is refused").to_string();
        assert!(why("0.1.0").contains("has no date; write ## [0.1.0] - YYYY-MM-DD"));
        assert!(why("0.0.9").contains("is empty"));
        assert!(why("0.3.0").contains("no section ## [0.3.0]"));
    }

    // The statement names each file with its sum, and the commit.
    #[test]
    fn provenance_names_files_and_commit() {
        let sums = [("a.deb".to_owned(), "00ff".to_owned()), ("b.whl".to_owned(), "11".to_owned())];
        let statement = provenance(&sums, "v0.2.0", "abc");
        assert_eq!(statement["subject"][0], json!({"name": "a.deb", "digest": {"sha256": "00ff"}}));
        assert_eq!(statement["subject"].as_array().map(Vec::len), Some(2));
        let source = &statement["predicate"]["buildDefinition"]["resolvedDependencies"][0];
        assert_eq!(source["digest"]["gitCommit"], "abc");
        assert!(source["uri"].as_str().is_some_and(|uri| uri.ends_with("@refs/tags/v0.2.0")));
    }

    // This project's own changelog has what a rehearsal needs.
    #[test]
    fn our_changelog_has_notes() {
        let text = include_str!("../../CHANGELOG.md");
        assert!(section(text, "Unreleased").is_ok_and(|notes| notes.lines().count() > 10));
    }
}
