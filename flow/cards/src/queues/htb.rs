//! Rules as an HTB: guaranteed shares, and the rest of the card by priority.
//!
//! HTB serves classes within their own rate first and lends the rest of the line by priority, so a
//! rate is a floor and a priority an order. The tree, with shares of the line:
//!
//! ```text
//! line ─┬─ collectives  85 %  first in line for everything that is left
//!       ├─ KV           10 %  the floor
//!       └─ unmarked      5 %  shares the leftovers with the last KV class
//! ```
//!
//! Unmarked traffic (ssh, HTTP of the gateway, DNS, also downloads of weights) goes before KV up to
//! its share and shares leftovers with KV evenly above it: a shell stays usable beside greedy
//! transfers, and a download does not push KV down to its floor.
//!
//! With eight classes, the first two are leaves of "collectives" and the others of "KV": within a
//! group the order is strict, and the group as a whole has the share.

use super::class::{Class, Classes, EIGHT, KV};
use super::filters::{filters, legend};
use super::script::Script;
use super::shape::Shape;
use super::text::Rate;

/// Handle of the root: a `SO_PRIORITY` of handle and class is a direct pointer to the class.
pub(crate) const HANDLE: u16 = 0x4d44;
/// The inner classes, and the leaf of unmarked traffic. Leaves of classes have their number plus 1.
const LINE: u16 = 0xff;
const UPPER: u16 = 0xfe;
const LOWER: u16 = 0xfd;
const UNMARKED: u16 = 9;
const _: () = assert!(UNMARKED as usize > EIGHT.len(), "no leaf of a class has its number");

/// The largest packet that the stack hands to a card in one piece (GSO), with its headers.
const LARGEST: u64 = 65_536 + 128;
/// Rate of a leaf inside of a group, in thousandths of the line: no connection dies for lack of
/// service.
const TRICKLE: u64 = 1;

pub(crate) fn script(shape: &Shape, rate: Rate) -> Script {
    let device = &shape.device;
    let mut script = Script::default();
    legend(&mut script, shape.classes);
    script.note(format!(
        "Guaranteed: collectives {} %, KV {} %, unmarked {} % of {rate}. Leftovers go to \
         collectives first.",
        shape.shares()[0],
        shape.shares()[1],
        shape.shares()[2]
    ));
    script.tc(format!("qdisc replace dev {device} root handle {HANDLE:x}: htb default {UNMARKED}"));
    let tree = Tree { device, rate };
    tree.class(&mut script, None, LINE, 1000, None);
    let [upper, lower, unmarked] = shape.shares().map(|share| u64::from(share) * 10);
    match shape.classes {
        Classes::Two => {
            for (class, share) in [(super::COLLECTIVE, upper), (KV, lower)] {
                tree.leaf(&mut script, LINE, class, share);
            }
        }
        Classes::Eight => {
            tree.class(&mut script, Some(LINE), UPPER, upper, None);
            tree.class(&mut script, Some(LINE), LOWER, lower, None);
            for class in EIGHT {
                let parent = if class.is_upper(Classes::Eight) { UPPER } else { LOWER };
                tree.leaf(&mut script, parent, class, TRICKLE);
            }
        }
    }
    tree.class(&mut script, Some(LINE), UNMARKED, unmarked, Some(KV.number));
    let parent = format!("{HANDLE:x}:");
    for class in EIGHT {
        let leaf = shape.classes.fold(class).minor();
        filters(&mut script, device, &parent, class, &format!("{HANDLE:x}:{leaf:x}"));
    }
    script
}

struct Tree<'a> {
    device: &'a str,
    rate: Rate,
}

impl Tree<'_> {
    fn leaf(&self, script: &mut Script, parent: u16, class: Class, share: u64) {
        self.class(script, Some(parent), class.minor(), share, Some(class.number));
    }

    /// One class with a share of the line in thousandths. Leaves have a priority.
    ///
    /// `burst` is what a class may send at once after a pause. A timer of the kernel may come late
    /// by some hundred microseconds, and what it misses beyond the burst is lost; tc's own default,
    /// one packet, loses a good part of 10 Gb/s. So: a millisecond of the rate, at least the
    /// largest packet. `cburst` is the same for the ceiling.
    ///
    /// `quantum` is a leaf's turn among leaves of equal priority. It must hold the largest packet;
    /// tc's default, a tenth of the rate in bytes, makes turns of hundreds of megabytes here.
    fn class(
        &self,
        script: &mut Script,
        parent: Option<u16>,
        minor: u16,
        share: u64,
        prio: Option<u8>,
    ) {
        let (device, ceil) = (self.device, self.rate);
        let rate = ceil.thousandths(share);
        let parent = parent.map_or(String::new(), |parent| format!("{parent:x}"));
        let [burst, cburst] = [rate, ceil].map(|rate| rate.millisecond().max(LARGEST));
        let mut text = format!(
            "class add dev {device} parent {HANDLE:x}:{parent} classid {HANDLE:x}:{minor:x} htb \
             rate {rate} ceil {ceil} burst {burst} cburst {cburst} quantum {LARGEST}"
        );
        if let Some(prio) = prio {
            text += &format!(" prio {prio}");
        }
        script.tc(text);
    }
}
