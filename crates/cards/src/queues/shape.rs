//! The order asked for on one device, checked.

use super::class::{Class, Classes, EIGHT, KV};
use super::script::Script;
use super::text::{Percent, Rate};
use super::{ets, htb};

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
        [100 - floor - unmarked, floor, unmarked]
    }

    /// The commands on a device that has another root than these rules.
    #[must_use]
    pub fn script(&self) -> Script {
        match (self.kind, self.rate) {
            (Kind::Htb, Some(rate)) => htb::script(self, rate),
            _ => ets::script(self),
        }
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

/// Two filters a class, for IPv4 and IPv6, that put packets of `class` into `flowid`.
///
/// They read the first 16 bits of the IP header: version, header length and TOS of IPv4; version
/// and traffic class of IPv6. With `protocol all` they also see packets of a VLAN whose tag the
/// card adds, which `protocol ip` does not. ECN bits are masked out.
pub(crate) fn filters(script: &mut Script, device: &str, parent: &str, class: Class, flowid: &str) {
    let ipv4 = 0x4000 | u16::from(class.byte());
    let ipv6 = 0x6000 | (u16::from(class.dscp) << 6);
    for (value, mask) in [(ipv4, 0xf0fc_u16), (ipv6, 0xffc0)] {
        script.tc(format!(
            "filter add dev {device} parent {parent} protocol all pref 10 u32 match u16 \
             {value:#06x} {mask:#06x} at 0 flowid {flowid}"
        ));
    }
}

/// A comment for each code point that `classes` distinguish.
pub(crate) fn legend(script: &mut Script, classes: Classes) {
    script.note("Classes by DSCP (IPv4's TOS and IPv6's traffic class without their ECN bits):");
    for class in EIGHT.iter().filter(|class| classes.fold(**class) == **class) {
        let Class { name, dscp, carries, .. } = class;
        let is_all_kv = classes == Classes::Two && *class == KV;
        let carries =
            if is_all_kv { "all KV, also with another class of the eight" } else { carries };
        script.note(format!("  {dscp:>2} {name:<10} {carries}"));
    }
    script.note("Filters read the first 16 bits of the IP header, with both forms of each class.");
    script.note("Where these rules are set already, delete the root first; --apply does.");
}
