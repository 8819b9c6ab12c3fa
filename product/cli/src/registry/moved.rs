//! `meridian control export` and `import`: a registry moves from one store to another.

use std::io::{Read, Write};
use std::path::PathBuf;

use anyhow::Context;
use meridian_protocol::registry::Imported;

use super::ask::Control;

/// Write everything that operators stored in a control plane, as JSON
#[derive(clap::Args)]
pub(crate) struct Export {
    #[command(flatten)]
    control: Control,
    /// File to write; standard output if absent
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Store an export in a control plane
#[derive(clap::Args)]
pub(crate) struct Import {
    #[command(flatten)]
    control: Control,
    /// File to read; `-` for standard input
    file: PathBuf,
    /// Change records that are different in the control plane
    #[arg(long)]
    replace: bool,
}

impl Export {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let export: serde_json::Value = self.control.get("/admin/export")?;
        let text = serde_json::to_string_pretty(&export)? + "\n";
        match &self.output {
            Some(path) => std::fs::write(path, text).with_context(|| {
                format!("{}: cannot be written; choose another file", path.display())
            }),
            None => Ok(std::io::stdout().write_all(text.as_bytes())?),
        }
    }
}

/// Most bytes of an import; the control plane accepts fewer.
const MOST: u64 = 256 << 20;

impl Import {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let mut text = String::new();
        let read = if self.file.as_os_str() == "-" {
            std::io::stdin().take(MOST).read_to_string(&mut text).map(drop)
        } else {
            let file = std::fs::File::open(&self.file);
            file.and_then(|file| file.take(MOST).read_to_string(&mut text)).map(drop)
        };
        read.with_context(|| {
            format!(
                "{}: cannot be read; name a file of `meridian control export`",
                self.file.display()
            )
        })?;
        let path = if self.replace { "/admin/import?replace=true" } else { "/admin/import" };
        let done: Imported = self.control.post(path, &text)?;
        println!("{} records added, {} changed, {} the same", done.added, done.changed, done.same);
        Ok(())
    }
}
