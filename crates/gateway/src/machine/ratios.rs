//! Tokens per byte of prompt, by model: a quarter at first, then learned from engines' counts.

use std::sync::atomic::{AtomicU32, Ordering};

use meridian_base::ModelId;

pub(crate) struct Ratios(Vec<AtomicU32>);

/// Models with their own ratio; further ones share one.
const RATIOS: usize = 256;
/// Weight of one answer.
const GAIN: f32 = 0.05;

impl Ratios {
    pub(crate) fn new() -> Ratios {
        Ratios((0..RATIOS).map(|_| AtomicU32::new(0.25f32.to_bits())).collect())
    }

    pub(crate) fn get(&self, model: ModelId) -> f32 {
        f32::from_bits(self.slot(model).load(Ordering::Relaxed))
    }

    /// Learns that an engine counted `tokens` in a prompt of `bytes`.
    pub(crate) fn learn(&self, model: ModelId, bytes: u64, tokens: u32) {
        if bytes < 64 || tokens == 0 {
            return;
        }
        let seen = (tokens as f32 / bytes as f32).clamp(0.05, 1.5);
        let old = self.get(model);
        // Two racing updates lose one sample of many.
        self.slot(model).store((old + GAIN * (seen - old)).to_bits(), Ordering::Relaxed);
    }

    fn slot(&self, model: ModelId) -> &AtomicU32 {
        &self.0[usize::from(model.0) % RATIOS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The ratio approaches the engines' counts, and an absurd count does not move it far.
    #[test]
    fn ratios_learn() {
        let ratios = Ratios::new();
        (0..500).for_each(|_| ratios.learn(ModelId(3), 1000, 500));
        assert!((ratios.get(ModelId(3)) - 0.5).abs() < 0.01);
        ratios.learn(ModelId(3), 10, 10_000);
        assert!((ratios.get(ModelId(3)) - 0.5).abs() < 0.01);
        assert!((ratios.get(ModelId(4)) - 0.25).abs() < 1e-6);
    }
}
