//! The queues of a card that speaks RoCE, whose packets pass the kernel and its qdiscs by.
//!
//! `dcb` of iproute2 sets them on any driver with DCB. The commands print; they are not run.

use std::fmt::Write as _;

use super::shape::{ShapeError, checked};
use super::switch::{Queue, Weights};

/// The lowest priority of the network's control traffic.
const CONTROL: u8 = 6;

/// Commands that give a card one queue for each of the upper three bits of a code point.
///
/// # Errors
///
/// When the device's name is none.
pub fn card(device: &str, weights: Weights) -> Result<String, ShapeError> {
    let device = checked(device)?;
    let queues = weights.queues();
    let of = |number: u8| queues.iter().find(|queue| queue.number == number);
    let join = |each: &dyn Fn(u8) -> String| (0..8).map(each).collect::<Vec<_>>().join(" ");
    // Queues without a class of ours share the one of unmarked traffic; control traffic is strict.
    let classes = join(&|n| {
        let own = n >= CONTROL || of(n).is_some();
        format!("{n}:{}", if own { n } else { 0 })
    });
    let algorithms = join(&|n| format!("{n}:{}", if of(n).is_some() { "ets" } else { "strict" }));
    let shares = join(&|n| format!("{n}:{}", of(n).map_or(0, |queue| queue.weight)));
    let mut text = String::from(
        "# Queues of the card itself, for RoCE. Not tried on hardware. RoCE that must not lose\n\
         # packets also needs PFC on the queues of its classes, here and on every switch.\n",
    );
    let mut line = |line: String| writeln!(text, "{line}").expect("a string takes all text");
    line(format!("dcb ets set dev {device} willing off prio-tc {classes}"));
    line(format!("dcb ets set dev {device} tc-tsa {algorithms} tc-bw {shares}"));
    for Queue { number, dscps, .. } in queues.iter().filter(|queue| !queue.dscps.is_empty()) {
        for dscp in dscps {
            line(format!("dcb app replace dev {device} dscp-prio {dscp}:{number}"));
        }
    }
    Ok(text)
}
