//! Tokens per byte of prompt, by model: a quarter at first, then learned from engines' counts.
//!
//! It is the sum of the counted tokens over that of the bytes, in which older answers fade. A mean of
//! each answer's own ratio would be too high: a chat template adds the same tokens to a prompt of 50
//! as to one of 5,000, and what a long prompt shares with the cache would look longer than it is.

use std::sync::atomic::{AtomicU64, Ordering};

use meridian_base::ModelId;

/// The sums of each model.
pub(crate) struct Ratios(Vec<AtomicU64>);

/// Models with their own ratio; further ones share one.
const RATIOS: usize = 256;
/// The weight of an answer when the next one arrives.
const KEEP: f32 = 0.95;
/// Most bytes that one answer counts for, so that a single long prompt of another kind, or a lie, does
/// not decide for long.
const MOST: f32 = 65_536.0;
/// Bytes of the first guess.
const GUESSED: f32 = 1024.0;

impl Ratios {
    pub(crate) fn new() -> Ratios {
        Ratios((0..RATIOS).map(|_| AtomicU64::new(pack(GUESSED / 4.0, GUESSED))).collect())
    }

    pub(crate) fn get(&self, model: ModelId) -> f32 {
        let (tokens, bytes) = unpack(self.slot(model).load(Ordering::Relaxed));
        assert!(tokens > 0.0 && bytes > 0.0, "no ratio of {tokens} tokens to {bytes} bytes");
        tokens / bytes
    }

    /// Learns that an engine counted `tokens` in a prompt of `bytes`.
    pub(crate) fn learn(&self, model: ModelId, bytes: u64, tokens: u32) {
        if bytes < 64 || tokens == 0 {
            return;
        }
        let seen = (bytes as f32).min(MOST);
        let counted = seen * (tokens as f32 / bytes as f32).clamp(0.05, 1.5);
        let (tokens, bytes) = unpack(self.slot(model).load(Ordering::Relaxed));
        // Two racing updates lose one sample of many.
        let next = pack(tokens * KEEP + counted, bytes * KEEP + seen);
        self.slot(model).store(next, Ordering::Relaxed);
    }

    fn slot(&self, model: ModelId) -> &AtomicU64 {
        &self.0[usize::from(model.0) % RATIOS]
    }
}

fn pack(tokens: f32, bytes: f32) -> u64 {
    u64::from(tokens.to_bits()) << 32 | u64::from(bytes.to_bits())
}

fn unpack(sums: u64) -> (f32, f32) {
    (f32::from_bits((sums >> 32) as u32), f32::from_bits(sums as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    // The ratio approaches the engines' counts, and an absurd count does not move it far.
    #[test]
    fn ratios_learn() {
        let ratios = Ratios::new();
        assert!((ratios.get(ModelId(3)) - 0.25).abs() < 1e-6);
        (0..500).for_each(|_| ratios.learn(ModelId(3), 1000, 500));
        assert!((ratios.get(ModelId(3)) - 0.5).abs() < 0.01);
        ratios.learn(ModelId(3), 10, 10_000);
        assert!((ratios.get(ModelId(3)) - 0.5).abs() < 0.01);
        assert!((ratios.get(ModelId(4)) - 0.25).abs() < 1e-6);
    }

    // A template of 20 tokens hardly counts where most of the text is in long prompts.
    #[test]
    fn short_prompts_weigh_less() {
        let ratios = Ratios::new();
        for bytes in [200, 200, 200, 8000].into_iter().cycle().take(400) {
            ratios.learn(ModelId(0), bytes, bytes as u32 / 4 + 20);
        }
        let ratio = ratios.get(ModelId(0));
        assert!((0.25..0.27).contains(&ratio), "{ratio}");
    }

    // A megabyte at a token a byte is forgotten after some tens of usual prompts.
    #[test]
    fn one_long_prompt_is_forgotten() {
        let ratios = Ratios::new();
        ratios.learn(ModelId(0), 1 << 20, 1 << 20);
        (0..60).for_each(|_| ratios.learn(ModelId(0), 4000, 1000));
        let ratio = ratios.get(ModelId(0));
        assert!((0.25..0.3).contains(&ratio), "{ratio}");
    }
}
