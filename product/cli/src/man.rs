//! Shell completions and man pages, both made from the command line's own definition.

use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::Context as _;
use clap_complete::Shell;

/// Print a shell's completion script
///
/// Bash: meridian completions bash > /etc/bash_completion.d/meridian
#[derive(clap::Args)]
pub struct Completions {
    /// The shell that reads the script
    shell: Shell,
}

/// Write a man page for each command
#[derive(clap::Args)]
pub struct Man {
    /// The folder that gets the pages; it is created if it does not exist
    folder: PathBuf,
}

impl Completions {
    /// Prints the script for a command line.
    ///
    /// # Errors
    /// If stdout can't be written.
    pub fn run(&self, mut cli: clap::Command) -> anyhow::Result<()> {
        let mut script = Vec::new();
        let name = cli.get_name().to_owned();
        clap_complete::generate(self.shell, &mut cli, name, &mut script);
        Ok(io::stdout().write_all(&script)?)
    }
}

impl Man {
    /// Writes the pages of a command line.
    ///
    /// # Errors
    /// If a file can't be written.
    pub fn run(&self, cli: clap::Command) -> anyhow::Result<()> {
        let place = || self.folder.display().to_string();
        std::fs::create_dir_all(&self.folder).with_context(place)?;
        clap_mangen::generate_to(cli, &self.folder).with_context(place)
    }
}
