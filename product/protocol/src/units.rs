//! Units in values: `250ms`, `64MiB`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// A duration, written with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl Span {
    /// A number of milliseconds.
    #[must_use]
    pub const fn millis(ms: u64) -> Span {
        Span(Duration::from_millis(ms))
    }

    /// A number of seconds.
    #[must_use]
    pub const fn secs(s: u64) -> Span {
        Span(Duration::from_secs(s))
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&humantime::format_duration(self.0))
    }
}

/// Longest time: later than this, no clock of a process counts.
const MOST: Duration = Duration::from_secs(100 * 366 * 86_400);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Span, D::Error> {
        let text = String::deserialize(d)?;
        let span = humantime::parse_duration(&text).map_err(|_| {
            D::Error::custom(match text.parse::<f64>() {
                Ok(_) => format!("`{text}` has no unit; write {text}s, {text}ms or {text}m"),
                Err(_) => format!(
                    "`{text}` is not a time; write a number and a unit, as in 250ms, 10s, 2m"
                ),
            })
        })?;
        match span <= MOST {
            true => Ok(Span(span)),
            false => Err(D::Error::custom(format!("`{text}` is too long; use at most 100y"))),
        }
    }
}

/// A number of bytes, written with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl Size {
    /// A number of mebibytes.
    #[must_use]
    pub const fn mib(n: u64) -> Size {
        Size(n << 20)
    }

    /// A number of kibibytes.
    #[must_use]
    pub const fn kib(n: u64) -> Size {
        Size(n << 10)
    }

    /// As a length in memory.
    #[must_use]
    pub fn bytes(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        // The largest unit without a remainder, so that it reads back as the same.
        const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
        let fits = |(_, unit): &&(&str, u64)| self.0 >= *unit && self.0.is_multiple_of(*unit);
        let (name, unit) = UNITS.iter().find(fits).copied().unwrap_or(("B", 1));
        s.collect_str(&format_args!("{}{name}", self.0 / unit))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Size, D::Error> {
        let text = String::deserialize(d)?;
        text.parse::<bytesize::ByteSize>().map(|b| Size(b.0)).map_err(|_| {
            D::Error::custom(format!(
                "`{text}` is not a size; write a number and a unit, as in 64KiB, 16MiB"
            ))
        })
    }
}
