//! Quantiles of latencies in fixed memory: counts in buckets whose width grows with the value.
//!
//! 16 buckets for each doubling, so a quantile is at most 2.2 % from the true value, and 18 doublings
//! from 0.5 ms to 131 s. Values outside count in the first or last bucket.

const PER_DOUBLING: usize = 16;
const BUCKETS: usize = 18 * PER_DOUBLING;
/// Lower end of the first bucket, ms.
const LEAST: f32 = 0.5;

/// Counts by latency.
#[derive(Clone, Debug)]
pub(super) struct Latencies {
    counts: [u32; BUCKETS],
    total: u32,
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies { counts: [0; BUCKETS], total: 0 }
    }
}

impl Latencies {
    pub(super) fn add(&mut self, ms: f32) {
        if !ms.is_finite() {
            return;
        }
        let at = ((ms.max(LEAST) / LEAST).log2() * PER_DOUBLING as f32) as usize;
        self.counts[at.min(BUCKETS - 1)] += 1;
        self.total += 1;
    }

    /// The latencies of both.
    pub(super) fn with(mut self, other: &Latencies) -> Latencies {
        let pairs = self.counts.iter_mut().zip(&other.counts);
        pairs.for_each(|(own, other)| *own += other);
        self.total += other.total;
        self
    }

    /// The latency below which a share `q` lies, ms; none without any.
    pub(super) fn quantile(&self, q: f64) -> Option<f32> {
        let rank = (f64::from(self.total.checked_sub(1)?) * q).round() as u32;
        assert!(rank < self.total, "rank {rank} of {} latencies", self.total);
        let mut below = 0;
        let at = self.counts.iter().position(|count| {
            below += count;
            below > rank
        })?;
        // The middle of the bucket, on its scale.
        Some(LEAST * ((at as f32 + 0.5) / PER_DOUBLING as f32).exp2())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Quantiles are within 2.2 % of the sorted samples', whatever the scale; odd values are counted at
    // the ends or left out.
    #[test]
    fn close_to_the_sorted_samples() {
        let mut rng = meridian_base::Rng::new(7);
        let mut all = Latencies::default();
        assert_eq!(all.quantile(0.5), None);
        let mut samples: Vec<f32> =
            (0..999).map(|_| ((1 + rng.below(1000)) as f32 / 80.0).exp2()).collect();
        samples.iter().for_each(|ms| all.add(*ms));
        samples.sort_by(f32::total_cmp);
        for q in [0.0, 0.5, 0.9, 0.99, 1.0] {
            let sorted = samples[(998.0_f64 * q).round() as usize].max(LEAST);
            let found = all.quantile(q).unwrap();
            assert!((found / sorted - 1.0).abs() < 0.023, "{q}: {found} {sorted}");
        }
        let mut odd = Latencies::default();
        [f32::NAN, f32::INFINITY].into_iter().for_each(|ms| odd.add(ms));
        assert_eq!(odd.quantile(0.5), None);
        [-1.0, 0.0, f32::MAX].into_iter().for_each(|ms| odd.add(ms));
        assert!(odd.quantile(0.0).unwrap() < 0.6 && odd.quantile(1.0).unwrap() > 120_000.0);
        assert_eq!(all.clone().with(&all).quantile(0.5), all.quantile(0.5));
    }
}
