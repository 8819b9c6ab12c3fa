//! Rates and shares as operators write them: `25Gbps`, `10%`.

use std::fmt;
use std::str::FromStr;

/// Text that is not a rate or a share.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    #[error("`{0}` is not a rate: write a number with a unit, as in 25Gbps or 800Mbps")]
    NotARate(String),
    #[error("`{0}` is out of range: a card has 10Mbps to 10Tbps")]
    RateRange(String),
    #[error("`{0}` is not a share: write a percentage, as in 10%")]
    NotAShare(String),
    #[error("`{0}` is out of range: write 1% to 50%")]
    ShareRange(String),
}

/// Bits a second, 10 Mb/s to 10 Tb/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

/// Units in bits a second. `bit` and `bps` mean bits here: `tc` reads `bps` as bytes, so only
/// `bit` units are ever handed to it.
const UNITS: [(&str, f64); 9] = [
    ("tbps", 1e12),
    ("tb/s", 1e12),
    ("tbit", 1e12),
    ("gbps", 1e9),
    ("gb/s", 1e9),
    ("gbit", 1e9),
    ("mbps", 1e6),
    ("mb/s", 1e6),
    ("mbit", 1e6),
];
const RATES: std::ops::RangeInclusive<f64> = 10e6..=10e12;

impl Rate {
    /// A rate in Mb/s, as the kernel reports the speed of a card.
    #[must_use]
    pub fn mbps(mbps: u64) -> Rate {
        Rate(mbps * 1_000_000)
    }

    /// A part of it, in thousandths.
    #[must_use]
    pub(crate) fn thousandths(self, parts: u64) -> Rate {
        assert!(parts <= 1000, "a part is not more than the whole");
        Rate(self.0 / 1000 * parts)
    }

    /// The bytes that it carries in a millisecond.
    #[must_use]
    pub(crate) fn millisecond(self) -> u64 {
        self.0 / 8000
    }
}

impl FromStr for Rate {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Rate, TextError> {
        // `GB/s` is bytes, which no card's rate is written in; reading it as bits would be wrong
        // by a factor of eight.
        if text.trim_end().ends_with("B/s") {
            return Err(TextError::NotARate(text.into()));
        }
        let lower = text.trim().to_ascii_lowercase();
        let split = UNITS.iter().find_map(|(unit, size)| Some((lower.strip_suffix(unit)?, size)));
        let bits = split
            .and_then(|(number, size)| Some(number.trim().parse::<f64>().ok()? * size))
            .ok_or_else(|| TextError::NotARate(text.into()))?;
        if !RATES.contains(&bits) {
            return Err(TextError::RateRange(text.into()));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "is in range")]
        Ok(Rate(bits.round() as u64))
    }
}

/// As `tc` reads it: `25000mbit`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bits if bits % 1_000_000 == 0 => write!(f, "{}mbit", bits / 1_000_000),
            bits => write!(f, "{}kbit", bits / 1000),
        }
    }
}

/// A share of a card in whole percent, 1 to 50.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(u8);

impl Percent {
    #[must_use]
    pub(crate) fn get(self) -> u8 {
        self.0
    }
}

impl FromStr for Percent {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Percent, TextError> {
        let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<u64>().ok());
        match number {
            None => Err(TextError::NotAShare(text.into())),
            Some(number @ 1..=50) => Ok(Percent(number.try_into().expect("is at most 50"))),
            Some(_) => Err(TextError::ShareRange(text.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Every unit reads as bits, and `tc` gets a unit that it reads as bits too.
    #[test]
    fn rates_are_bits() {
        for text in ["25Gbps", "25 Gb/s", "25gbit", "25000mbit", "0.025Tbps"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), "25000mbit", "{text}");
        }
        assert_eq!("12.3456Mbps".parse::<Rate>().unwrap().to_string(), "12345kbit");
    }

    // Bytes, missing units and impossible rates are refused with the remedy.
    #[test]
    fn wrong_rates_are_refused() {
        for text in ["25", "25GB/s", "fast", "", "Gbps", "nanGbps"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
        for text in ["-1Gbps", "0Gbps", "9Mbps", "11Tbps", "infGbps"] {
            assert_eq!(text.parse::<Rate>(), Err(TextError::RateRange(text.into())));
        }
    }

    // Shares need the sign, and leave at least half of the card to collectives.
    #[test]
    fn shares_are_1_to_50_percent() {
        assert_eq!("10%".parse::<Percent>(), Ok(Percent(10)));
        for text in ["10", "ten%", "-1%", "1.5%"] {
            assert_eq!(text.parse::<Percent>(), Err(TextError::NotAShare(text.into())));
        }
        for text in ["0%", "51%", "18446744073709551615%"] {
            assert_eq!(text.parse::<Percent>(), Err(TextError::ShareRange(text.into())));
        }
    }
}
