//! The order asked for on one device, checked.

use super::class::Classes;
use super::text::{Percent, Rate};

/// Rules that can't be made.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    #[error(
        "device `{0}` is not the name of a network device: up to 15 letters, digits and any of \
         `.:_@-`, as `ip link` shows it"
    )]
    Device(String),
    #[error(
        "a floor of {floor}% and {unmarked}% for unmarked traffic leave less than half of the card \
         to collectives; lower one"
    )]
    Shares { floor: u8, unmarked: u8 },
    #[error(
        "an HTB needs the rate to shape to; give a little less than the card's, as in 24.5Gbps"
    )]
    NoRate,
    #[error("ets does not shape, so it takes no rate; leave --rate out, or use --kind htb")]
    UnusedRate,
}

/// The queueing discipline that enforces the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Hierarchical token buckets: shapes to a rate a little below the card's, so that the queue
    /// forms where the order is known. In every distribution's kernel.
    Htb,
    /// Enhanced transmission selection: shares by weight and does not shape. Linux 5.6 and later.
    Ets,
}

/// Rules for one device.
#[derive(Clone, Debug)]
pub struct Shape {
    pub(crate) device: String,
    pub(crate) kind: Kind,
    pub(crate) classes: Classes,
    pub(crate) rate: Option<Rate>,
    pub(crate) floor: Percent,
    pub(crate) unmarked: Percent,
}

impl Shape {
    /// Rules for `device`. `floor` is the share that KV gets even beside greedy collectives,
    /// `unmarked` the share of traffic without a code point of ours.
    ///
    /// # Errors
    ///
    /// When the device's name is none, the shares leave too little to collectives, or an HTB has
    /// no rate or an ets has one.
    pub fn new(
        device: &str,
        kind: Kind,
        classes: Classes,
        rate: Option<Rate>,
        [floor, unmarked]: [Percent; 2],
    ) -> Result<Shape, ShapeError> {
        let device = checked(device)?.to_owned();
        leaves_enough(floor, unmarked)?;
        match (kind, rate) {
            (Kind::Htb, None) => Err(ShapeError::NoRate),
            (Kind::Ets, Some(_)) => Err(ShapeError::UnusedRate),
            _ => Ok(Shape { device, kind, classes, rate, floor, unmarked }),
        }
    }

    /// The percentages of collectives, KV and unmarked traffic: 100 together.
    pub(crate) fn shares(&self) -> [u8; 3] {
        let (floor, unmarked) = (self.floor.get(), self.unmarked.get());
        assert!(floor + unmarked <= 50, "collectives keep half of the card");
        [100 - floor - unmarked, floor, unmarked]
    }
}

/// Whether collectives keep half of the card.
pub(crate) fn leaves_enough(floor: Percent, unmarked: Percent) -> Result<(), ShapeError> {
    let (floor, unmarked) = (floor.get(), unmarked.get());
    if floor + unmarked > 50 { Err(ShapeError::Shares { floor, unmarked }) } else { Ok(()) }
}

/// A device's name. It becomes part of commands, so everything else that the kernel would allow in
/// a name is refused.
pub(crate) fn checked(device: &str) -> Result<&str, ShapeError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || ".:_@-".contains(c);
    let good = !device.is_empty() && device.len() <= 15 && device.chars().all(plain);
    if good && !device.starts_with('-') {
        Ok(device)
    } else {
        Err(ShapeError::Device(device.into()))
    }
}
