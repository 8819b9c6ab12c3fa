//! Reads configuration files, and makes errors that name the line of a problem.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use meridian_config::{Problem, locate};

/// Most bytes of a file: that of the largest fleet's is a tenth of it.
const MOST: u64 = 16 << 20;

/// The file that a command reads, with or without `-c`.
#[derive(clap::Args)]
pub struct NamedFile {
    /// Configuration file; `-c` may be left out
    #[arg(short, long, value_name = "FILE", required_unless_present = "file")]
    config: Option<PathBuf>,
    #[arg(value_name = "FILE", conflicts_with = "config", hide = true)]
    file: Option<PathBuf>,
}

impl NamedFile {
    /// Its path.
    pub fn path(&self) -> &Path {
        self.config.as_ref().or(self.file.as_ref()).expect("clap asks for a file")
    }
}

/// A configuration file as text.
pub struct ConfigFile {
    path: PathBuf,
    pub yaml: String,
}

impl ConfigFile {
    /// Reads a file.
    ///
    /// # Errors
    /// If the file cannot be read; the error has the reason and the remedy.
    pub fn read(path: &Path) -> anyhow::Result<ConfigFile> {
        let shown = path.display();
        if path.is_dir() {
            return Err(anyhow!("{shown} is a directory; name a file, as in {}", example(path)));
        }
        let mut bytes = Vec::new();
        // It may be a pipe, and so have no end.
        let read = File::open(path).and_then(|file| file.take(MOST + 1).read_to_end(&mut bytes));
        read.map_err(|error| unreadable(path, &error))?;
        if bytes.len() as u64 > MOST {
            return Err(anyhow!("{shown} is larger than {MOST} bytes; name a configuration file"));
        }
        let yaml = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let line = 1 + error.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
            anyhow!("{shown}:{line}: this line is not UTF-8 text; save the file as UTF-8")
        })?;
        Ok(ConfigFile { path: path.to_owned(), yaml })
    }

    /// The error that lists problems, each with the file and its line.
    pub fn refused(&self, problems: &[Problem]) -> anyhow::Error {
        if let [problem] = problems {
            return anyhow!("{}", self.line(problem));
        }
        let mut text = format!("{} has {} problems:", self.path.display(), problems.len());
        for problem in problems {
            let _ = write!(text, "\n  {}", self.line(problem));
        }
        anyhow!(text)
    }

    /// The error that a start failed with, with lines for the fields that it names.
    pub fn cannot_start(&self, error: &str) -> anyhow::Error {
        let problems = locate(&self.yaml, error.lines().map(str::to_owned).collect());
        self.refused(&problems)
    }

    /// Messages that start with a field, each with the file and its line.
    pub fn located(&self, messages: Vec<String>) -> Vec<String> {
        locate(&self.yaml, messages).iter().map(|problem| self.line(problem)).collect()
    }

    fn line(&self, Problem { line, text }: &Problem) -> String {
        let path = self.path.display();
        match line {
            Some(line) => format!("{path}:{line}: {text}"),
            None => format!("{path}: {text}"),
        }
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> anyhow::Error {
    let shown = path.display();
    match error.kind() {
        ErrorKind::NotFound if path.is_absolute() => anyhow!("{shown}: there is no such file"),
        ErrorKind::NotFound => {
            let folder = std::env::current_dir().unwrap_or_default();
            anyhow!("{shown}: there is no such file in {}", folder.display())
        }
        ErrorKind::PermissionDenied => {
            anyhow!("{shown}: this user may not read the file; change its owner or its mode")
        }
        _ => anyhow!("{shown} cannot be read: {error}"),
    }
}

/// A file name for an error message: an existing file of the folder, or a usual name.
fn example(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_yaml =
        |path: &PathBuf| path.extension().is_some_and(|end| end == "yaml" || end == "yml");
    let found = entries.map(|entry| entry.path()).filter(is_yaml).min();
    found.unwrap_or_else(|| folder.join("gateway.yaml")).display().to_string()
}
