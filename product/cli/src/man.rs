//! Shell completions and man pages, both made from the command line's own definition.

use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::Context as _;
use clap_complete::Shell;

/// Print a shell's completion script
///
/// Bash: meridian completions bash > /etc/bash_completion.d/meridian
#[derive(clap::Args)]
pub(crate) struct Completions {
    /// The shell that reads the script
    shell: Shell,
}

/// Write a man page for each command
#[derive(clap::Args)]
pub(crate) struct Man {
    /// The folder that gets the pages; it is created if it does not exist
    folder: PathBuf,
}

impl Completions {
    pub(crate) fn run(&self, mut cli: clap::Command) -> anyhow::Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut cli, "meridian", &mut script);
        Ok(io::stdout().write_all(&script)?)
    }
}

impl Man {
    pub(crate) fn run(&self, cli: clap::Command) -> anyhow::Result<()> {
        let place = || self.folder.display().to_string();
        std::fs::create_dir_all(&self.folder).with_context(place)?;
        clap_mangen::generate_to(cli, &self.folder).with_context(place)
    }
}
