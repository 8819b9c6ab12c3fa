//! Trace files: plain or compressed, with a given or detected format.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, ensure};
use flate2::read::MultiGzDecoder;
use meridian_workload::trace::{Format, ReadOptions, Reader};

/// A trace that is being read.
pub type TraceReader = Reader<Box<dyn BufRead>>;

/// Opens a file; a name ending in .gz means gzip.
///
/// # Errors
///
/// When it can't be opened.
pub fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let plain = File::open(path)?;
    Ok(match path.extension().is_some_and(|extension| extension == "gz") {
        true => Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(plain))),
        false => Box::new(BufReader::with_capacity(1 << 16, plain)),
    })
}

/// The requests of `input`, in `format` or in the one that its first line shows.
///
/// # Errors
/// When it can't be read, or its first line shows no format.
pub fn reader(
    mut input: Box<dyn BufRead>,
    format: Option<Format>,
    options: &ReadOptions,
) -> anyhow::Result<TraceReader> {
    let format = match format {
        Some(format) => format,
        None => {
            let head = input.fill_buf()?;
            let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
            let known = Format::of_first_line(&String::from_utf8_lossy(line));
            ensure!(!head.is_empty(), "it is empty: use a file with requests");
            let all = || Format::ALL.map(Format::name).join(", ");
            known.with_context(|| {
                format!(
                    "the format of its first line is unknown; name it with --from, as one of {}",
                    all()
                )
            })?
        }
    };
    Ok(Reader::new(input, format, options))
}
