//! Prices and GPU-hours.

use meridian_papers::experiment::price::usd_per_hour;
use meridian_plan::{Bill, GpuId, Prices, Task, Topology};

#[derive(Debug, clap::Args)]
pub(super) struct Cost {
    /// Price of a GPU's hour by kind, as h100=2.5,a100=1.2; `listed` is an on-demand price in USD
    #[arg(long, value_name = "KIND=PRICE", value_delimiter = ',', allow_hyphen_values = true)]
    price: Vec<String>,
}

impl Cost {
    /// The prices, if there are any.
    pub(super) fn prices(&self, topology: &Topology) -> anyhow::Result<Option<Prices>> {
        if self.price.is_empty() {
            return Ok(None);
        }
        super::all(Prices::read(&self.price, usd_per_hour, topology), "--price").map(Some)
    }
}

/// The cost of some GPUs at a rate.
pub(super) fn bill(task: &Task<'_>, prices: Option<&Prices>, gpus: &[GpuId], rate: f64) -> Bill {
    let per_hour = prices.map(|prices| prices.of(task.topology, gpus));
    Bill { gpus: gpus.len() as u32, rate, output: task.output.mean, per_hour }
}

/// A line on the cost.
pub(super) fn line(bill: &Bill) -> String {
    let Bill { gpus, rate, per_hour, .. } = bill;
    let mut text = format!(
        "   at {rate:.3}/s: {gpus} GPUs, {} GPU-hours a million requests, {} a million output tokens\n",
        digits(bill.hours_per_million_requests()),
        digits(bill.hours_per_million_tokens()),
    );
    if let (Some(hour), Some(request), Some(tokens)) =
        (per_hour, bill.per_request(), bill.per_million_tokens())
    {
        text.push_str(&format!(
            "   price: {hour:.2} an hour, {} a request, {} a million output tokens\n",
            digits(request),
            digits(tokens)
        ));
    }
    text
}

/// A number to three or more digits.
pub(super) fn digits(value: f64) -> String {
    match value {
        _ if value >= 100.0 || value == 0.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ if value >= 1.0 => format!("{value:.2}"),
        _ => {
            // Three digits after the leading zeros.
            let zeros = (-value.log10().floor()) as usize;
            format!("{value:.*}", zeros + 2)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::digits;

    // Small prices keep three digits, and large ones have no fraction.
    #[test]
    fn numbers_have_three_digits() {
        for (value, text) in [
            (0.000_756_4, "0.000756"),
            (0.25, "0.250"),
            (3.456, "3.46"),
            (27.12, "27.1"),
            (302.6, "303"),
            (0.0, "0"),
        ] {
            assert_eq!(digits(value), text);
        }
    }
}
