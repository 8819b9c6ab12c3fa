//! A histogram with fixed bounds, written in Prometheus' text form.

use std::fmt::Write;

/// Counts of observations by upper bound.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    bounds: &'static [f64],
    /// One count per bound, not cumulative, and one for everything above.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    pub(crate) fn new(bounds: &'static [f64]) -> Histogram {
        Histogram { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    pub(crate) fn observe(&mut self, value: f64, times: u32) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket] += u64::from(times);
        self.sum += value * f64::from(times);
    }

    /// Appends the samples of `name` with `labels`.
    pub(crate) fn write(&self, name: &str, labels: &str, page: &mut String) {
        let mut cumulative = 0;
        for (index, count) in self.counts.iter().enumerate() {
            cumulative += count;
            let bound = match self.bounds.get(index) {
                Some(bound) => format!("{bound:?}"),
                None => "+Inf".to_owned(),
            };
            // Writing to a string does not fail.
            let _ = writeln!(page, "{name}_bucket{{{labels},le=\"{bound}\"}} {cumulative}");
        }
        let _ = writeln!(page, "{name}_count{{{labels}}} {cumulative}");
        let _ = writeln!(page, "{name}_sum{{{labels}}} {}", self.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Buckets are cumulative, a value on a bound belongs to it, and values above all bounds still
    // count.
    #[test]
    fn buckets_are_cumulative() {
        let mut histogram = Histogram::new(&[0.5, 1.0]);
        for value in [0.1, 1.0, 9.0] {
            histogram.observe(value, 1);
        }
        let mut page = String::new();
        histogram.write("h", "a=\"b\"", &mut page);
        let expected = "h_bucket{a=\"b\",le=\"0.5\"} 1\nh_bucket{a=\"b\",le=\"1.0\"} 2\n\
                        h_bucket{a=\"b\",le=\"+Inf\"} 3\nh_count{a=\"b\"} 3\nh_sum{a=\"b\"} 10.1\n";
        assert_eq!(page, expected);
    }
}
