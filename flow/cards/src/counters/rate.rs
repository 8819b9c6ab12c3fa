//! The rate of a card, as people, network devices and RDMA ports write it.

use std::fmt;
use std::str::FromStr;

use super::CardsError;

/// The units that people write, in bytes a second. A longer unit stands before its own ending.
const UNITS: [(&str, f64); 8] = [
    ("tbps", 125e9),
    ("gbps", 125e6),
    ("mbps", 125e3),
    ("gbit", 125e6),
    ("mbit", 125e3),
    ("tb/s", 1e12),
    ("gb/s", 1e9),
    ("mb/s", 1e6),
];

/// Bytes a second in one direction, above 0.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Rate(f64);

impl Rate {
    /// Bytes a second; `None` unless finite and above 0.
    #[must_use]
    pub fn new(bytes: f64) -> Option<Rate> {
        (bytes > 0.0 && bytes.is_finite()).then_some(Rate(bytes))
    }

    /// Bytes a second.
    #[must_use]
    pub fn bytes(self) -> f64 {
        self.0
    }

    /// Gigabits a second.
    #[must_use]
    pub fn gigabits(self) -> f64 {
        self.0 / 125e6
    }

    /// From `speed` of a network device, in Mb/s. Virtual cards have -1 or an error there.
    pub(super) fn of_speed(text: &str) -> Option<Rate> {
        Rate::new(text.trim().parse::<f64>().ok()? * 125e3)
    }

    /// From `rate` of an RDMA port: `200 Gb/sec (4X HDR)`.
    pub(super) fn of_port(text: &str) -> Option<Rate> {
        let (number, unit) = text.trim().split_once(' ')?;
        let gigabits = number.parse::<f64>().ok().filter(|_| unit.starts_with("Gb/sec"))?;
        Rate::new(gigabits * 125e6)
    }
}

impl FromStr for Rate {
    type Err = CardsError;

    /// Case does not matter, except that `Gb/s` would be bits and `GB/s` bytes: `b` alone is refused.
    fn from_str(text: &str) -> Result<Rate, CardsError> {
        let wrong = || CardsError::Rate { text: text.to_owned() };
        if text.ends_with("b/s") {
            return Err(wrong());
        }
        let lower = text.trim().to_ascii_lowercase();
        let split = UNITS.iter().find_map(|(unit, size)| Some((lower.strip_suffix(unit)?, size)));
        let (number, size) = split.ok_or_else(wrong)?;
        let number: f64 = number.trim().parse().map_err(|_| wrong())?;
        Rate::new(number * size).ok_or_else(wrong)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Gb/s", (self.gigabits() * 1000.0).round() / 1000.0)
    }
}
