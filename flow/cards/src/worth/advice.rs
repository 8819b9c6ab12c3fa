//! One recommendation from the readings.
//!
//! The cheapest change that takes most of the gain wins: classes before a gate, and neither where the
//! table shows no gain of five percent, or one that five seeds cannot tell from none.

use super::{Layers, Ratio, Reading, read};

/// A gain that is worth a change. The table's intervals are some 0.05 wide on either side.
const CLEAR: f64 = 1.05;

/// What to do about a host's cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// No card's use is known.
    Unknown,
    /// No change is worth its work.
    Nothing,
    /// Send KV layer by layer first; then classes are worth something.
    ByLayer,
    /// Two classes with a floor for fetches.
    TwoClasses,
    /// Order KV transfers by deadline in the engine, beside two classes.
    Gate,
}

impl Advice {
    /// Its name for programs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Advice::Unknown => "unknown",
            Advice::Nothing => "nothing",
            Advice::ByLayer => "kv_layer_by_layer",
            Advice::TwoClasses => "two_classes_with_floor",
            Advice::Gate => "kv_gate",
        }
    }
}

/// Advises at the use of the busiest card, 0 to 1.
#[must_use]
pub fn advise(used: Option<f64>, layers: Layers) -> Advice {
    let Some(used) = used else { return Advice::Unknown };
    let here = read(used, layers);
    if here.iter().any(|one| is_clear(one.mfs_over_floor)) {
        return Advice::Gate;
    }
    let are_classes_worth = |readings: &[Reading]| readings.iter().any(|one| is_clear(one.floor));
    if are_classes_worth(&here) {
        return Advice::TwoClasses;
    }
    if layers != Layers::One && are_classes_worth(&read(used, Layers::One)) {
        return Advice::ByLayer;
    }
    Advice::Nothing
}

/// Whether a ratio is a gain: its interval keeps luck with five seeds out of the advice.
fn is_clear(ratio: Ratio) -> bool {
    ratio.mean > CLEAR && ratio.low >= 1.0
}
