//! Rules as ets: bands that share by weight, and strict bands within a group of classes.
//!
//! A strict band of ets can take the whole card, so collectives in one would leave KV no floor.
//! The three groups therefore share by weight: collectives get their weight whenever they need it
//! and what the others leave, which under load is the guarantee that HTB gives. With eight classes
//! each group is an ets of its own with strict bands.
//!
//! ets does not shape. The order holds as long as the card's driver pushes back (byte queue limits),
//! as current drivers of server cards do; a veth or a tunnel has no queue to order.

use super::class::{Class, Classes, EIGHT};
use super::filters::{filters, legend};
use super::script::Script;
use super::shape::Shape;

/// Handle of the root; the two inner ets of eight classes have the next ones.
pub(crate) const HANDLE: u16 = 0x4d45;
/// Bytes a turn for each percent: the smallest turn is a packet of 1500.
const TURN: u32 = 1514;
const _: () = assert!(HANDLE > super::htb::HANDLE, "the two kinds have roots of their own");

pub(crate) fn script(shape: &Shape) -> Script {
    let device = &shape.device;
    let mut script = Script::default();
    legend(&mut script, shape.classes);
    let [upper, lower, unmarked] = shape.shares();
    script.note(format!(
        "Weights: collectives {upper}, KV {lower}, unmarked {unmarked}. Nothing is shaped: the \
         queue forms here if the card's driver has byte queue limits."
    ));
    let quanta = shape.shares().map(|share| (u32::from(share) * TURN).to_string()).join(" ");
    script.tc(format!(
        "qdisc replace dev {device} root handle {HANDLE:x}: ets bands 3 quanta {quanta} priomap{}",
        " 2".repeat(16)
    ));
    let root = format!("{HANDLE:x}:");
    for class in EIGHT {
        let band = if class.is_upper(shape.classes) { 1 } else { 2 };
        filters(&mut script, device, &root, class, &format!("{HANDLE:x}:{band}"));
    }
    if shape.classes == Classes::Eight {
        for (band, upper) in [(1, true), (2, false)] {
            inner(&mut script, device, band, |class| class.is_upper(Classes::Eight) == upper);
        }
    }
    script
}

/// The strict bands of one group, below a band of the root.
fn inner(script: &mut Script, device: &str, band: u16, is_in: impl Fn(&Class) -> bool) {
    let group: Vec<Class> = EIGHT.into_iter().filter(is_in).collect();
    let (handle, bands) = (HANDLE + band, group.len());
    assert!(bands > 0, "a group has classes");
    let last = format!(" {}", bands - 1).repeat(16);
    script.tc(format!(
        "qdisc add dev {device} parent {HANDLE:x}:{band} handle {handle:x}: ets bands {bands} \
         strict {bands} priomap{last}"
    ));
    for (at, class) in group.into_iter().enumerate() {
        let flowid = format!("{handle:x}:{:x}", at + 1);
        filters(script, device, &format!("{handle:x}:"), class, &flowid);
    }
}
