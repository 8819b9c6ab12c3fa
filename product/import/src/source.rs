//! Reads the file to import as text, up to a limit.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};

/// The largest file. Configurations are far smaller.
pub(super) const MOST_BYTES: u64 = 1 << 20;

/// A text with its name.
pub(super) struct Source {
    /// The file's name without its folder, or `stdin`. The place in a comment starts with it.
    pub(super) name: String,
    /// The folder where relative paths start; none for stdin.
    pub(super) folder: Option<PathBuf>,
    /// The text.
    pub(super) text: String,
}

impl Source {
    /// Reads a file, or stdin for `-`.
    pub(super) fn open(path: &Path) -> anyhow::Result<Source> {
        if path == Path::new("-") {
            let text = text(std::io::stdin().lock()).context("stdin")?;
            return Ok(Source { name: "stdin".to_owned(), folder: None, text });
        }
        let text = file(path)?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let folder = path.parent().map(Path::to_owned);
        Ok(Source { name, folder, text })
    }
}

/// The text of a file. Pipes can be read; folders and endless devices can not.
pub(super) fn file(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let file = File::open(path).with_context(|| format!("cannot read {shown}"))?;
    text(file).with_context(|| format!("cannot read {shown}"))
}

fn text(input: impl Read) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    input.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    ensure!(
        bytes.len() as u64 <= MOST_BYTES,
        "the file is larger than {MOST_BYTES} bytes; name the program's configuration file"
    );
    let Ok(text) = String::from_utf8(bytes) else {
        bail!("the file is not UTF-8 text; name the program's configuration file");
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    ensure!(!text.trim().is_empty(), "the file is empty; name the program's configuration file");
    let odd = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r');
    ensure!(
        !text.contains(odd),
        "the file has control characters and is not text; name the program's configuration file"
    );
    Ok(text.to_owned())
}

/// Parses YAML without a schema. Errors show the place, but not the text, which may be secret.
pub(super) fn yaml(text: &str) -> anyhow::Result<serde_json::Value> {
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let place =
            error.location().map(|at| format!("line {}, column {}: ", at.line(), at.column()));
        let place = place.unwrap_or_default();
        anyhow::anyhow!("{place}this is not YAML; look for indentation, brackets and quotes there")
    })
}
