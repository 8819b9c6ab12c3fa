//! The input of the rules: the workspace as cargo sees it, and its files.
//!
//! It walks the folders that `.gitignore` does not list, without using git, so a copy without
//! history, or one owned by another user, can be checked too.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use cargo_metadata::{Metadata, MetadataCommand, Package};

use crate::cmd::{self, cargo};
use crate::scope::{Kind, Scope, programs};

/// The workspace and its files, read once.
pub(crate) struct House {
    pub(crate) root: PathBuf,
    pub(crate) metadata: Metadata,
    pub(crate) files: Vec<File>,
    /// What a build makes.
    pub(crate) scope: Scope,
}

/// The trees of crates: what an operator runs, the scheduler of transfers, and the laboratory.
pub(crate) const TREES: [&str; 4] = ["product", "flow", "lab", "packaging"];

/// Whether a path from the root is in one of the trees.
pub(crate) fn in_a_tree(path: &str) -> bool {
    path.split_once('/').is_some_and(|(tree, _)| TREES.contains(&tree))
}

/// One file of the repository.
pub(crate) struct File {
    /// From the root, with forward slashes.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// `None` if it is not UTF-8.
    pub(crate) text: Option<String>,
}

impl House {
    pub(crate) fn open() -> anyhow::Result<House> {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
        let metadata = MetadataCommand::new().manifest_path(manifest).exec()?;
        let root = metadata.workspace_root.clone().into_std_path_buf();
        let ignored = std::fs::read_to_string(root.join(".gitignore")).unwrap_or_default();
        let mut files = Vec::new();
        walk(&root, &root, &ignored_folders(&ignored), &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(House { root, metadata, files, scope: Scope::Whole })
    }

    /// The text of one file, `None` if there is no such file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path)?.text.as_deref()
    }

    /// The text of a file that must be there.
    pub(crate) fn file(&self, path: &str) -> anyhow::Result<&str> {
        self.text(path).with_context(|| format!("the repository has no text file {path}"))
    }

    /// The value of a key in versions.env.
    pub(crate) fn pinned(&self, key: &str) -> anyhow::Result<&str> {
        let lines = self.file("versions.env")?.lines();
        let mut values = lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        let value = values.next().with_context(|| format!("versions.env has no {key}"))?;
        Ok(value.trim_matches('"'))
    }

    /// The packages of the workspace.
    pub(crate) fn packages(&self) -> Vec<&Package> {
        self.metadata.workspace_packages()
    }

    /// The folder of a package, from the root.
    pub(crate) fn folder(&self, package: &Package) -> String {
        let folder = package.manifest_path.parent().expect("a manifest is in a folder");
        let inside = folder.strip_prefix(&self.metadata.workspace_root);
        inside.map_or_else(|_| folder.to_string(), ToString::to_string)
    }

    /// `meridian` from `build`. `meridian-lab`, which runs the laboratory's commands for it, is in the
    /// same folder.
    pub(crate) fn meridian(&self) -> PathBuf {
        self.metadata.target_directory.join("debug/meridian").into_std_path_buf()
    }

    /// `meridian-lab` from `build`.
    pub(crate) fn meridian_lab(&self) -> PathBuf {
        self.meridian().with_file_name("meridian-lab")
    }

    /// The simulator's search for seeds that break an invariant, from `build`.
    pub(crate) fn search(&self) -> PathBuf {
        self.metadata.target_directory.join("debug/examples/search").into_std_path_buf()
    }

    /// The crates of the scope.
    pub(crate) fn in_scope(&self) -> impl Iterator<Item = &Package> {
        self.packages().into_iter().filter(|package| self.scope.has(package))
    }

    /// The names of the test programs of a kind in the scope, each once: cargo runs all that have
    /// the name.
    pub(crate) fn programs(&self, kind: Kind) -> BTreeSet<&str> {
        self.in_scope().flat_map(programs).filter(|name| Kind::of(name) == kind).collect()
    }

    /// Builds all tests and binaries of the scope; of the whole workspace the search too. One set of
    /// cargo features serves them all: with the packages built separately, tokio and its dependents
    /// would be compiled twice, and so would all machines for the search.
    pub(crate) fn build(&self) -> anyhow::Result<bool> {
        let args = if self.scope.whole() {
            vec!["build", "--workspace", "--lib", "--bins", "--tests", "--example", "search"]
        } else {
            // Cargo builds the binaries of crates that have test programs, beside those.
            let programs = self.scope.kinds().iter().flat_map(|kind| self.programs(*kind));
            let programs = programs.flat_map(|name| ["--test", name]);
            let crates = self.scope.args();
            ["test", "--no-run"]
                .into_iter()
                .chain(crates)
                .chain(["--lib", "--bins"])
                .chain(programs)
                .collect()
        };
        cmd::ends_well(cargo(&self.root, &[&args[..], &["--quiet"]].concat()))
    }
}

/// The lines of `.gitignore` that name a folder at any depth: `target/`.
fn ignored_folders(gitignore: &str) -> Vec<&str> {
    gitignore.lines().filter_map(|line| line.strip_suffix('/')).chain([".git"]).collect()
}

/// Adds the files under `folder`.
fn walk(root: &Path, folder: &Path, ignored: &[&str], files: &mut Vec<File>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let (path, name, kind) =
            entry.and_then(|one| Ok((one.path(), one.file_name(), one.file_type()?)))?;
        if ignored.iter().any(|one| name == *one) {
            continue;
        }
        if kind.is_dir() {
            walk(root, &path, ignored, files)?;
        } else if kind.is_file() {
            let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
            let relative = path.strip_prefix(root).expect("the walk begins at the root");
            let (path, bytes, text) = (
                relative.to_string_lossy().into_owned(),
                bytes.len() as u64,
                String::from_utf8(bytes).ok(),
            );
            files.push(File { path, bytes, text });
        }
    }
    Ok(())
}

impl File {
    /// The lines with their numbers, none if the file is not text.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.as_deref().unwrap_or_default().lines())
    }

    /// A file made of text, for tests of the rules.
    #[cfg(test)]
    pub(crate) fn of(path: &str, text: &str) -> File {
        File { path: path.into(), bytes: text.len() as u64, text: Some(text.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Build outputs and history are not the repository; this very file is.
    #[test]
    fn finds_the_files_of_the_repository() {
        assert_eq!(ignored_folders("target/\n*.log\n"), ["target", ".git"]);
        let house = House::open().unwrap();
        assert!(house.text("xtask/src/house.rs").is_some_and(|text| text.contains("fn walk")));
        assert!(!house.files.iter().any(|file| file.path.starts_with("target/")));
        assert!(house.file("no/such/file").is_err());
    }

    // A key is the whole word before the equals sign; one that is missing is named.
    #[test]
    fn reads_pins() {
        let text = "DIST_GLIBC_DEBS=\"a b\"\nDIST_GLIBC=\"2.31\"\n";
        let metadata = House::open().unwrap().metadata;
        let files = vec![File::of("versions.env", text)];
        let house = House { root: PathBuf::new(), metadata, files, scope: Scope::Whole };
        assert_eq!(house.pinned("DIST_GLIBC").unwrap(), "2.31");
        assert!(house.pinned("DIST").unwrap_err().to_string().contains("DIST"));
    }
}
