//! The table that the simulation wrote, as data of this program.
//!
//! A test compares it with the table in lab/results/mfs-load.md, and a test of the experiment compares its
//! parameters with those of the experiment's file, so that neither can change alone.

use super::Layers;

/// The file, as `meridian experiment mfs-load` writes it.
pub const CSV: &str = include_str!("mfs-load.csv");

/// A ratio with its 95 % interval over seeds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The ratio of means.
    pub mean: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// A workload on cards of one rate with one granularity of KV. Ratios are of requests in time.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The workload.
    pub workload: &'static str,
    /// A card's rate in Gb/s.
    pub card: f64,
    /// Layers per transfer.
    pub layers: Layers,
    /// Mean use of the busiest card under fair sharing, 0 to 1.
    pub used: f64,
    /// Requests in time under MFS, 0 to 1.
    pub in_time: f64,
    /// MFS over fair sharing.
    pub mfs: Ratio,
    /// Two classes over fair sharing.
    pub two_class: Ratio,
    /// Two classes with a floor for fetches over fair sharing.
    pub floor: Ratio,
    /// MFS over two classes with a floor.
    pub mfs_over_floor: Ratio,
}

/// All rows, in the order of the file.
///
/// # Panics
/// Never: the file is part of the program, and a test reads it.
#[must_use]
pub fn rows() -> Vec<Row> {
    parsed(CSV).expect("a test reads this file")
}

/// The rows of a file in this form.
pub(super) fn parsed(text: &'static str) -> Result<Vec<Row>, String> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let header: Vec<&str> = lines.next().ok_or("no header")?.split(',').collect();
    lines.map(|line| row(&header, line).map_err(|wrong| format!("{line}: {wrong}"))).collect()
}

fn row(header: &[&str], line: &'static str) -> Result<Row, String> {
    let cells: Vec<&'static str> = line.split(',').collect();
    let cell = |name: &str| {
        let place = header.iter().position(|known| *known == name);
        place.and_then(|place| cells.get(place).copied()).ok_or(format!("no {name}"))
    };
    let number = |name: &str| {
        let value: f64 = cell(name)?.parse().map_err(|_| format!("{name} is not a number"))?;
        Ok::<f64, String>(value)
    };
    let ratio = |name: &str| {
        let [mean, low, high] = ["", "_low", "_high"].map(|end| number(&format!("{name}{end}")));
        Ok::<Ratio, String>(Ratio { mean: mean?, low: low?, high: high? })
    };
    Ok(Row {
        workload: cell("workload")?,
        card: number("card_gbps")?,
        layers: cell("kv_layers")?.parse().map_err(|wrong| format!("{wrong}"))?,
        used: number("use_percent")? / 100.0,
        in_time: number("in_time_percent")? / 100.0,
        mfs: ratio("mfs_over_fair")?,
        two_class: ratio("two_class_over_fair")?,
        floor: ratio("two_class_floor_over_fair")?,
        mfs_over_floor: ratio("mfs_over_two_class_floor")?,
    })
}
