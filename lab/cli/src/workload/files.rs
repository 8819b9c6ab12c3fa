//! Traces on disk: plain or compressed, in a format that is given or detected.

use std::fs::File;
use std::io::{self, BufRead, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use flate2::Compression;
use flate2::write::GzEncoder;
use meridian_tools::trace_file;
use meridian_tools::trace_file::TraceReader;
use meridian_workload::find_generator;
use meridian_workload::trace::{Format, ReadOptions};

/// A trace to read.
#[derive(Debug, clap::Args)]
pub(crate) struct Source {
    /// Trace file; `-` for standard input; decompressed if the name ends in .gz
    file: Option<PathBuf>,
    /// Format of the trace [default: detected from its first line]
    #[arg(long, value_parser = format)]
    from: Option<Format>,
    /// Tokens in a block of the trace, if not the format's default
    #[arg(long)]
    from_block_tokens: Option<u32>,
    /// Skip bad lines and report their number
    #[arg(long)]
    lenient: bool,
}

pub(crate) fn format(name: &str) -> Result<Format, String> {
    let names = Format::ALL.map(Format::name).join(", ");
    Format::named(name).ok_or_else(|| format!("`{name}` is not a format; use one of {names}"))
}

impl Source {
    pub(crate) fn given(&self) -> bool {
        self.file.is_some()
    }

    /// The name of the file in messages.
    pub(crate) fn name(&self) -> String {
        let name = self.file.as_ref().map(|file| file.display().to_string());
        name.filter(|name| name != "-").unwrap_or_else(|| "standard input".to_owned())
    }

    /// Opens the trace.
    pub(crate) fn open(&self) -> anyhow::Result<TraceReader> {
        let file = self.file.as_deref().context("name the trace, or - for standard input")?;
        let input: Box<dyn BufRead> = match file == Path::new("-") {
            true => Box::new(io::stdin().lock()),
            false => trace_file::open(file).with_context(|| cannot_open(file))?,
        };
        let Source { from_block_tokens: block_tokens, lenient, .. } = *self;
        let options = ReadOptions { block_tokens, lenient, ..ReadOptions::default() };
        trace_file::reader(input, self.from, &options)
            .with_context(|| format!("{} (--from names a format)", self.name()))
    }
}

/// The error about a missing trace. `stats wildchat` probably means the generator.
fn cannot_open(file: &Path) -> String {
    let name = file.display();
    match file.to_str().and_then(find_generator) {
        Some(_) => {
            format!("cannot open {name}; for the generator: --generator {name} (stats, write)")
        }
        None => format!("cannot open {name}"),
    }
}

fn is_gzip(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "gz")
}

/// The output of a trace.
pub(crate) enum Out {
    Plain(Box<dyn Write>),
    Gzip(GzEncoder<BufWriter<File>>),
}

/// Creates `path`, or uses standard output.
pub(crate) fn create(path: Option<&Path>) -> anyhow::Result<Out> {
    let Some(path) = path else {
        return Ok(Out::Plain(Box::new(BufWriter::new(io::stdout()))));
    };
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let file = BufWriter::with_capacity(1 << 16, file);
    Ok(match is_gzip(path) {
        true => Out::Gzip(GzEncoder::new(file, Compression::default())),
        false => Out::Plain(Box::new(file)),
    })
}

/// Flushes and closes the output.
pub(crate) fn close(out: Out) -> anyhow::Result<()> {
    let done = match out {
        Out::Plain(mut out) => out.flush(),
        Out::Gzip(out) => out.finish().and_then(|mut file| file.flush()),
    };
    done.context("cannot write the trace")
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Out::Plain(out) => out.write(bytes),
            Out::Gzip(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Out::Plain(out) => out.flush(),
            Out::Gzip(out) => out.flush(),
        }
    }
}
