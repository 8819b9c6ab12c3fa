//! How many layers of KV an engine sends as one transfer.

use std::fmt;
use std::str::FromStr;

/// A granularity that was simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layers {
    /// Layer by layer.
    One,
    /// Four layers.
    Four,
    /// The KV of all layers, after prefill, as today's engines mostly do.
    #[default]
    All,
}

impl Layers {
    /// Its name in the table and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Layers::One => "1",
            Layers::Four => "4",
            Layers::All => "all",
        }
    }
}

impl fmt::Display for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Not a granularity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` layers were not simulated; use 1, 4 or all")]
pub struct NotSimulated(String);

impl FromStr for Layers {
    type Err = NotSimulated;

    fn from_str(text: &str) -> Result<Layers, NotSimulated> {
        let all = [Layers::One, Layers::Four, Layers::All];
        let found = all.into_iter().find(|layers| layers.name() == text);
        found.ok_or_else(|| NotSimulated(text.to_owned()))
    }
}
