//! Rates, sizes and times in common notation: `100Gb/s`, `300GB/s`, `40GiB`, `30us`.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $units:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
        pub struct $name(pub f64);

        impl $name {
            /// Reads a number with its unit.
            ///
            /// # Errors
            ///
            /// With the accepted notation.
            pub fn parse(text: &str) -> Result<$name, String> {
                parse(text, $units).map($name).ok_or_else(|| {
                    let known: Vec<&str> = $units.iter().map(|(unit, _)| *unit).collect();
                    format!(
                        concat!("`{}` is no ", $what, "; write a number with its unit: {}"),
                        text,
                        known.join(", ")
                    )
                })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&print(self.0, $units))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<$name, D::Error> {
                $name::parse(&String::deserialize(d)?).map_err(D::Error::custom)
            }
        }
    };
}

/// The largest unit first.
type Units = &'static [(&'static str, f64)];
const RATES: Units = &[
    ("TB/s", 1e12),
    ("Tb/s", 125e9),
    ("GB/s", 1e9),
    ("Gb/s", 125e6),
    ("MB/s", 1e6),
    ("Mb/s", 125e3),
    ("B/s", 1.0),
];
const SIZES: Units = &[
    ("GiB", 1_073_741_824.0),
    ("GB", 1e9),
    ("MiB", 1_048_576.0),
    ("MB", 1e6),
    ("KiB", 1024.0),
    ("KB", 1e3),
    ("B", 1.0),
];
const SPANS: Units = &[("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)];

quantity!(
    /// Bytes a second, in one direction.
    Rate, RATES, "rate"
);
quantity!(
    /// Bytes.
    Size, SIZES, "size"
);
quantity!(
    /// Seconds.
    Span, SPANS, "time"
);

fn parse(text: &str, units: Units) -> Option<f64> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().ok()?;
    let unit = unit.trim();
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    Some(number * factor)
}

/// In the largest unit in which it is at least 1, to four digits; never in bits.
fn print(value: f64, units: Units) -> String {
    let (name, factor) = units
        .iter()
        .filter(|(name, _)| !name.ends_with("b/s"))
        .find(|(_, factor)| value >= *factor * 0.9999)
        .or(units.last())
        .expect("every quantity has units");
    let scaled = value / factor;
    let digits = 3_i32.saturating_sub(libm::floor(libm::log10(scaled.max(1.0))) as i32).max(0);
    let text = format!("{scaled:.*}", digits as usize);
    let text = if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text.as_str()
    };
    format!("{text}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    // Bits and bytes differ by a factor of eight, and printed values read back.
    #[test]
    fn quantities_read_as_they_are_written() {
        assert_eq!(Rate::parse("100Gb/s"), Ok(Rate(12.5e9)));
        assert_eq!(Rate::parse("300 GB/s"), Ok(Rate(300e9)));
        assert_eq!(Span::parse("2.5s"), Ok(Span(2.5)));
        assert_eq!(Size::parse("40GiB"), Ok(Size(42_949_672_960.0)));
        for text in ["12.5GB/s", "1TB/s", "900MB/s", "0B/s"] {
            assert_eq!(Rate::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Span(150e-3).to_string(), "150ms");
        assert_eq!(Size(42_949_672_960.0).to_string(), "40GiB");
    }

    // A number without a unit, or with another quantity's, is refused with the accepted notation.
    #[test]
    fn a_unit_is_asked_for() {
        for text in ["100", "100GB", "fast", "-1GB/s", "nanGB/s"] {
            assert!(Rate::parse(text).unwrap_err().contains("GB/s"), "{text}");
        }
    }
}
