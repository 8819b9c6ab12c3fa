//! The gain at the busiest card's use, and the recommendation.

use meridian_cards::worth::{self, Advice, Layers, Place, Ratio, Reading};
use serde::Serialize;

/// The readings of the table.
#[derive(Serialize)]
pub(in crate::flow::doctor) struct Worth {
    pub(in crate::flow::doctor) busiest_card: Option<String>,
    /// Its mean use in the busier direction.
    pub(in crate::flow::doctor) use_percent: Option<f64>,
    pub(in crate::flow::doctor) kv_layers: &'static str,
    pub(in crate::flow::doctor) workloads: Vec<Gain>,
    #[serde(rename = "recommendation", serialize_with = "name")]
    pub(in crate::flow::doctor) advice: Advice,
    /// At the same use with KV layer by layer, if that is not the granularity.
    #[serde(skip)]
    pub(in crate::flow::doctor) by_layer: Vec<Reading>,
}

/// Requests in time relative to fair sharing, for one simulated workload.
#[derive(Serialize)]
pub(in crate::flow::doctor) struct Gain {
    pub(in crate::flow::doctor) workload: &'static str,
    pub(in crate::flow::doctor) place: Where,
    /// The end of the measured range, unless the use is inside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::flow::doctor) range_ends_at_percent: Option<f64>,
    pub(in crate::flow::doctor) two_class: Interval,
    pub(in crate::flow::doctor) two_class_floor: Interval,
    pub(in crate::flow::doctor) mfs: Interval,
}

/// Where the use lies in the measured range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::flow::doctor) enum Where {
    /// Below it: no gain.
    Below,
    /// Inside: interpolated.
    Within,
    /// Above: the last row.
    Above,
}

/// A ratio with its 95 % interval.
#[derive(Clone, Copy, Serialize)]
pub(in crate::flow::doctor) struct Interval {
    pub(in crate::flow::doctor) mean: f64,
    pub(in crate::flow::doctor) low: f64,
    pub(in crate::flow::doctor) high: f64,
}

impl From<Ratio> for Interval {
    fn from(Ratio { mean, low, high }: Ratio) -> Interval {
        Interval { mean, low, high }
    }
}

/// Looks up the busiest card's use, 0 to 1.
pub(super) fn worth(busiest: Option<(String, f64)>, layers: Layers) -> Worth {
    let used = busiest.as_ref().map(|(_, used)| *used);
    let read = |layers| used.map(|used| worth::read(used, layers)).unwrap_or_default();
    let by_layer = if layers == Layers::One { Vec::new() } else { read(Layers::One) };
    Worth {
        use_percent: used.map(|used| 100.0 * used),
        busiest_card: busiest.map(|(card, _)| card),
        kv_layers: layers.name(),
        workloads: read(layers).iter().map(gain).collect(),
        advice: worth::advise(used, layers),
        by_layer,
    }
}

fn gain(reading: &Reading) -> Gain {
    let (place, end) = match reading.place {
        Place::Below(end) => (Where::Below, Some(100.0 * end)),
        Place::Within => (Where::Within, None),
        Place::Above(end) => (Where::Above, Some(100.0 * end)),
    };
    Gain {
        workload: reading.workload,
        place,
        range_ends_at_percent: end,
        two_class: reading.two_class.into(),
        two_class_floor: reading.floor.into(),
        mfs: reading.mfs.into(),
    }
}

fn name<S: serde::Serializer>(advice: &Advice, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(advice.name())
}
