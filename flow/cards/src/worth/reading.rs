//! Looks up a use in the table.

use super::Layers;
use super::table::{Ratio, Row, rows};

/// Where a use lies in the measured range of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    /// Below the lowest use: no gain is claimed, all values are 1.
    Below(f64),
    /// Between two rows: the values are interpolated.
    Within,
    /// Above the highest use: the values are those of that row.
    Above(f64),
}

/// The gain at a use, for one workload. Ratios are of requests in time.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The workload.
    pub workload: &'static str,
    /// Where the use lies.
    pub place: Place,
    /// Two classes over fair sharing.
    pub two_class: Ratio,
    /// Two classes with a floor over fair sharing.
    pub floor: Ratio,
    /// MFS over fair sharing.
    pub mfs: Ratio,
    /// MFS over two classes with a floor.
    pub mfs_over_floor: Ratio,
}

/// Reads the table at a use of 0 to 1: a reading for each workload, in the order of the table.
#[must_use]
pub fn read(used: f64, layers: Layers) -> Vec<Reading> {
    read_from(&rows(), used, layers)
}

pub(super) fn read_from(rows: &[Row], used: f64, layers: Layers) -> Vec<Reading> {
    let mut workloads: Vec<&'static str> = rows.iter().map(|row| row.workload).collect();
    workloads.dedup();
    let of = |workload: &'static str| {
        let mut rows: Vec<&Row> =
            rows.iter().filter(|row| row.workload == workload && row.layers == layers).collect();
        rows.sort_by(|a, b| a.used.total_cmp(&b.used));
        reading(&rows, used)
    };
    workloads.into_iter().filter_map(of).collect()
}

/// The reading from one workload's rows, in the order of their use.
fn reading(rows: &[&Row], used: f64) -> Option<Reading> {
    let (first, last) = (rows.first()?, rows.last()?);
    let no_gain = Ratio { mean: 1.0, low: 1.0, high: 1.0 };
    let (place, [two_class, floor, mfs, mfs_over_floor]) = if used < first.used {
        (Place::Below(first.used), [no_gain; 4])
    } else if used > last.used {
        (Place::Above(last.used), last.ratios())
    } else {
        let above = rows.iter().position(|row| row.used >= used)?;
        let (low, high) = (rows[above.saturating_sub(1)], rows[above]);
        let share = match high.used - low.used {
            width if width > 0.0 => (used - low.used) / width,
            _ => 0.0,
        };
        assert!((0.0..=1.0).contains(&share), "a use within the rows is between two of them");
        let (a, b) = (low.ratios(), high.ratios());
        (Place::Within, std::array::from_fn(|nth| between(a[nth], b[nth], share)))
    };
    Some(Reading { workload: first.workload, place, two_class, floor, mfs, mfs_over_floor })
}

impl Row {
    fn ratios(&self) -> [Ratio; 4] {
        [self.two_class, self.floor, self.mfs, self.mfs_over_floor]
    }
}

fn between(a: Ratio, b: Ratio, share: f64) -> Ratio {
    let line = |a: f64, b: f64| a + (b - a) * share;
    Ratio { mean: line(a.mean, b.mean), low: line(a.low, b.low), high: line(a.high, b.high) }
}
