//! GPU prices: a small table of public on-demand prices (`data/gpu-prices`).

const TABLE: &str = include_str!("../../data/gpu-prices/prices.csv");

/// The price of one GPU in USD an hour; `None` if it is not in the table.
#[must_use]
pub fn usd_per_hour(gpu: &str) -> Option<f64> {
    // The variants at the ends of a profile's error bar are models of the same card.
    let gpu = gpu.trim_end_matches("-slow").trim_end_matches("-fast");
    let rows = TABLE.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let row = rows.into_iter().find(|row| row.first() == Some(&gpu))?;
    row.get(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The papers' cards: used in plans and simulations, but without a price.
    const UNPRICED: [&str; 3] = ["a100-40g", "v100", "rtx-4090"];

    // Every row has a price, and every GPU in the engine model has a row, except those that cannot
    // be rented there.
    #[test]
    fn every_gpu_has_a_price() {
        for line in TABLE.lines().skip(1) {
            let price = line.rsplit(',').next().and_then(|p| p.parse::<f64>().ok());
            assert!(price.is_some_and(|p| p > 0.0), "{line}");
        }
        for gpu in meridian_engine::GPUS {
            let priced = usd_per_hour(gpu.name).is_some();
            assert_eq!(priced, !UNPRICED.contains(&gpu.name), "{}", gpu.name);
        }
        assert_eq!(usd_per_hour("l4"), Some(0.38));
        assert_eq!(usd_per_hour("none"), None);
    }
}
