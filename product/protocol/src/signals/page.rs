//! Walks a page in Prometheus's text format and yields the lines of one engine.
//!
//! The walk takes two `memchr` per line: one to the line's end, one over the name. A line without
//! the engine's prefix is never parsed; that is every comment, and most of a page of histograms.
//! Labels are parsed only for the few names that matter, with quotes and escapes respected, because
//! a label value may contain braces and blanks.
//!
//! Format: Prometheus text 0.0.4, and OpenMetrics as far as it differs on a sample line
//! (timestamps, exemplars, `# EOF`). Types and help texts are not read.

use memchr::{memchr, memchr2, memchr3};

use super::error::{Missing, SignalError, excerpt};

/// One sample line whose name starts with the given prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    /// The name after the prefix.
    pub(crate) name: &'a [u8],
    /// The rest of the line: labels, value, timestamp.
    rest: &'a [u8],
}

/// Calls `each` with every sample line whose name starts with one of the prefixes; returns whether
/// the page ends with a complete line.
pub(crate) fn walk<'a>(
    page: &'a [u8],
    prefixes: &[&str],
    mut each: impl FnMut(Line<'a>) -> Result<(), SignalError>,
) -> Result<bool, SignalError> {
    let mut rest = page;
    while let Some(end) = memchr(b'\n', rest) {
        let line = &rest[..end];
        rest = &rest[end + 1..];
        if let Some(line) = named(line, prefixes) {
            each(line)?;
        }
    }
    // Prometheus requires a line feed after the last line; OpenMetrics may stop right after its
    // mark.
    Ok(rest.is_empty() || rest == b"# EOF")
}

fn named<'a>(line: &'a [u8], prefixes: &[&str]) -> Option<Line<'a>> {
    let after = prefixes.iter().find_map(|prefix| line.strip_prefix(prefix.as_bytes()))?;
    let end = memchr3(b'{', b' ', b'\t', after)?;
    Some(Line { name: &after[..end], rest: &after[end..] })
}

impl<'a> Line<'a> {
    /// The labels between the braces, unparsed; empty if there are none.
    pub(crate) fn labels(&self) -> &'a [u8] {
        self.split().map_or(&[], |(labels, _)| labels)
    }

    /// The line's value: a finite number of at least zero, or NaN.
    pub(crate) fn value(&self, name: &'static str) -> Result<f64, SignalError> {
        value(name, self.split().map_or(&[][..], |(_, tail)| first_token(tail)))
    }

    fn split(&self) -> Option<(&'a [u8], &'a [u8])> {
        let Some(inside) = self.rest.strip_prefix(b"{") else {
            return Some((&[], self.rest));
        };
        let end = closing_brace(inside)?;
        Some((&inside[..end], &inside[end + 1..]))
    }
}

/// A number that can be a load, or NaN.
pub(super) fn value(name: &'static str, text: &[u8]) -> Result<f64, SignalError> {
    let value = std::str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    match value {
        Some(value) if value.is_nan() || (value >= 0.0 && value.is_finite()) => Ok(value),
        _ => Err(SignalError::Value {
            name,
            value: excerpt(text),
            expected: "a finite number of at least 0",
        }),
    }
}

/// The end of the labels: the first brace outside quotes.
fn closing_brace(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr2(b'"', b'}', text.get(at..)?)?;
        if text[at] == b'}' {
            return Some(at);
        }
        at = closing_quote(text, at + 1)? + 1;
    }
}

/// The end of the quoted value that starts at `at`: the first quote that is not escaped.
fn closing_quote(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at);
        }
        at += 2;
    }
}

fn first_token(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii_start();
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    &text[..end]
}

/// Iterates over `name="value"` pairs. Values stay escaped, since the values read here contain no
/// escapes. Stops at the first text that is not a pair.
pub(crate) fn pairs(labels: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = labels;
    std::iter::from_fn(move || {
        let equals = memchr(b'=', rest)?;
        let name = rest[..equals].trim_ascii();
        let value = rest[equals + 1..].trim_ascii_start().strip_prefix(b"\"")?;
        let end = closing_quote(value, 0)?;
        let tail = value[end + 1..].trim_ascii_start();
        rest = tail.strip_prefix(b",").unwrap_or(tail);
        Some((name, &value[..end]))
    })
}

/// A label value as a whole number.
pub(crate) fn number(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// Whether the page has a sample whose name starts with one of the prefixes.
pub(crate) fn has_metric(page: &[u8], prefixes: &[&str]) -> bool {
    let mut any = false;
    // The callback never fails, so neither does the walk.
    let _ = walk(page, prefixes, |_| {
        any = true;
        Ok(())
    });
    any
}

/// The result for a page after the walk: complete and with both required names, or the error.
pub(crate) fn verdict(
    engine: &'static str,
    page: &[u8],
    whole: bool,
    missing: [Option<&'static str>; 2],
    remedy: &'static str,
) -> Result<(), SignalError> {
    let missing = Missing { names: missing };
    // An error object or a web page is not a truncated metrics page: it needs no line feed at its
    // end.
    let cut = !whole && !matches!(page.first(), Some(b'{' | b'<'));
    if cut {
        return Err(SignalError::Truncated { engine, bytes: page.len(), missing });
    }
    if missing.names.iter().any(Option::is_some) {
        return Err(SignalError::Missing { engine, missing, remedy });
    }
    Ok(())
}
