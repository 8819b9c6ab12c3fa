//! What the rules look at: the workspace as cargo sees it, and the files as git sees them.

use std::path::PathBuf;

use anyhow::Context as _;
use cargo_metadata::{Metadata, MetadataCommand, Package};

use crate::cmd::{self, cargo, cmd};

/// The workspace and its files, read once.
pub(crate) struct House {
    pub(crate) root: PathBuf,
    pub(crate) metadata: Metadata,
    pub(crate) files: Vec<File>,
}

/// One file of the repository, tracked or about to be.
pub(crate) struct File {
    /// From the root, with forward slashes.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// None for what is no UTF-8.
    pub(crate) text: Option<String>,
}

impl House {
    pub(crate) fn open() -> anyhow::Result<House> {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
        let metadata = MetadataCommand::new().manifest_path(manifest).exec()?;
        let root = metadata.workspace_root.clone().into_std_path_buf();
        let git = cmd(&root, "git", &["ls-files", "--cached", "--others", "--exclude-standard"]);
        let listed = cmd::stdout_of(git).context("the rules read the files that git lists")?;
        let mut files = Vec::new();
        for path in listed.lines().filter(|path| root.join(path).is_file()) {
            let bytes = std::fs::read(root.join(path)).with_context(|| path.to_owned())?;
            let (path, bytes, text) =
                (path.to_owned(), bytes.len() as u64, String::from_utf8(bytes).ok());
            files.push(File { path, bytes, text });
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(House { root, metadata, files })
    }

    /// The text of one file, None where there is no such file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path)?.text.as_deref()
    }

    /// The packages of the workspace.
    pub(crate) fn packages(&self) -> Vec<&Package> {
        self.metadata.workspace_packages()
    }

    /// The `meridian` binary that `build` leaves.
    pub(crate) fn meridian(&self) -> PathBuf {
        self.metadata.target_directory.join("debug/meridian").into_std_path_buf()
    }

    /// Builds all tests and binaries. One set of cargo features serves them all: with the
    /// packages built apart, tokio and what stands on it would be compiled twice.
    pub(crate) fn build(&self) -> anyhow::Result<bool> {
        let args = ["test", "--workspace", "--lib", "--bins", "--tests", "--no-run", "--quiet"];
        cmd::ends_well(cargo(&self.root, &args))
    }
}

impl File {
    /// The lines with their numbers, none where the file is no text.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.as_deref().unwrap_or_default().lines())
    }

    /// A file made of text, for tests of the rules.
    #[cfg(test)]
    pub(crate) fn of(path: &str, text: &str) -> File {
        File { path: path.into(), bytes: text.len() as u64, text: Some(text.into()) }
    }
}
