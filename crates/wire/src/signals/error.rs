//! Why a page, header or object could not be read, and what to do about it.
//!
//! Values in messages are metric values, never request content.

/// Why a reply could not be read as a load.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignalError {
    /// The page ended in the middle of a line.
    #[error(
        "the {engine} page ends in the middle of a line after {bytes} bytes, {missing}; raise the probe's size limit, or let the exporter end its last line with a line feed"
    )]
    Truncated {
        /// Whose page.
        engine: &'static str,
        /// How much of it arrived.
        bytes: usize,
        /// What had not been seen by then.
        missing: Missing,
    },
    /// The page is whole and lacks names that every load needs.
    #[error("the {engine} page has {missing}; {remedy}")]
    Missing {
        /// Whose page.
        engine: &'static str,
        /// The names that were looked for and not found.
        missing: Missing,
        /// What the operator can do.
        remedy: &'static str,
    },
    /// A needed line has no value or one that cannot be a load.
    #[error(
        "{name} has the value `{value}`, expected {expected}; check what rewrites the page between engine and gateway"
    )]
    Value {
        /// The metric or field.
        name: &'static str,
        /// Its value, cut to a few characters.
        value: String,
        /// What it should have been.
        expected: &'static str,
    },
    /// A capacity page is not the JSON that the engine documents.
    #[error("the {engine} page at {path} is not {expected}; {remedy}")]
    Capacity {
        /// Whose page.
        engine: &'static str,
        /// What it should have been.
        expected: &'static str,
        /// The path it came from.
        path: &'static str,
        /// What the operator can do.
        remedy: &'static str,
    },
    /// The ORCA header is in a form that is not read here.
    #[error(
        "the endpoint-load-metrics header is {found}; ask for TEXT or JSON with endpoint-load-metrics-format"
    )]
    Orca {
        /// What is wrong with it.
        found: &'static str,
    },
}

/// The names that were looked for in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The names as the engine writes them.
    pub names: [Option<&'static str>; 2],
}

impl std::fmt::Display for Missing {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.names {
            [None, None] => out.write_str("no needed name missing"),
            [Some(one), None] | [None, Some(one)] => write!(out, "no {one}"),
            [Some(one), Some(two)] => write!(out, "no {one} and no {two}"),
        }
    }
}

/// The start of a value, short enough for a log line.
pub(super) fn excerpt(value: &[u8]) -> String {
    String::from_utf8_lossy(&value[..value.len().min(24)]).into_owned()
}
