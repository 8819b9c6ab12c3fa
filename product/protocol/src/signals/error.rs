//! Why a page, header or object could not be read, and the remedy.
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
        /// The engine of the page.
        engine: &'static str,
        /// The length received.
        bytes: usize,
        /// The names not seen up to there.
        missing: Missing,
    },
    /// The page is complete but lacks names that every load needs.
    #[error("the {engine} page has {missing}; {remedy}")]
    Missing {
        /// The engine of the page.
        engine: &'static str,
        /// The missing names.
        missing: Missing,
        /// The remedy for operators.
        remedy: &'static str,
    },
    /// The page has no metric of the server that was expected.
    #[error("no metric on the page starts with `{prefix}`; give the address of {server}")]
    Foreign {
        /// The start of that server's names.
        prefix: &'static str,
        /// The server.
        server: &'static str,
    },
    /// A required line has no value, or one that cannot be a load.
    #[error(
        "{name} has the value `{value}`, expected {expected}; check what rewrites the page between engine and gateway"
    )]
    Value {
        /// The metric or field.
        name: &'static str,
        /// Its value, cut to a few characters.
        value: String,
        /// The expected form.
        expected: &'static str,
    },
    /// A capacity page is not the JSON that the engine documents.
    #[error("the {engine} page at {path} is not {expected}; {remedy}")]
    Capacity {
        /// The engine of the page.
        engine: &'static str,
        /// The expected form.
        expected: &'static str,
        /// The path it came from.
        path: &'static str,
        /// The remedy for operators.
        remedy: &'static str,
    },
    /// The ORCA header has an unsupported form.
    #[error(
        "the endpoint-load-metrics header is {found}; ask for TEXT or JSON with endpoint-load-metrics-format"
    )]
    Orca {
        /// The form received.
        found: &'static str,
    },
}

/// The names that were not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The names in the engine's spelling.
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
