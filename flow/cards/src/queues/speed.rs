//! The rate to shape to on a card whose rate the kernel knows.

use std::path::Path;

use super::shape::checked;
use super::text::Rate;

/// Thousandths of the card's rate. Frames of 1500 bytes have 24 more bytes on the wire (preamble,
/// checksum, gap) that the kernel does not count: 1.6 %. Any more than that, and the queue would
/// form in the card, where nothing is in order.
const PARTS: u64 = 980;

/// A rate a little below the card's; `None` where the kernel does not know it: cards that are down,
/// most virtual ones.
#[must_use]
pub fn shaped_rate(device: &str) -> Option<Rate> {
    let file = Path::new("/sys/class/net").join(checked(device).ok()?).join("speed");
    of_speed(&std::fs::read_to_string(file).ok()?)
}

/// The file has the speed in Mb/s, or -1.
fn of_speed(text: &str) -> Option<Rate> {
    let mbps = text.trim().parse::<u32>().ok()?;
    // Some drivers report -1 without its sign.
    (10..=10_000_000).contains(&mbps).then(|| Rate::mbps(mbps.into()).thousandths(PARTS))
}

#[cfg(test)]
mod tests {
    use super::*;

    // 2 % below the line; an unknown speed is none.
    #[test]
    fn a_little_below_the_card() {
        assert_eq!(of_speed("25000\n").unwrap().to_string(), "24500mbit");
        for unknown in ["-1\n", "0\n", "4294967295\n", ""] {
            assert_eq!(of_speed(unknown), None, "{unknown}");
        }
        assert_eq!(shaped_rate("../../etc"), None);
    }
}
