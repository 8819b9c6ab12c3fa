//! Lengths of requests, from public traces (`data/planner-lengths`), and Poisson arrivals.

use anyhow::{Context as _, bail};
use meridian_base::{Rng, Time};
use meridian_plan::Lengths;
use meridian_sim::fleet::Request;

/// Prompt and reply, in tokens.
pub type Pair = (u32, u32);

/// The pairs of `chat` or `summaries`, truncated to a context.
///
/// # Errors
///
/// When the name is neither.
pub fn pairs(name: &str, context: u32) -> anyhow::Result<Vec<Pair>> {
    let text = match name {
        "chat" => include_str!("../../data/planner-lengths/chat.csv"),
        "summaries" => include_str!("../../data/planner-lengths/summaries.csv"),
        other => bail!("lengths: {other} is unknown; use chat or summaries"),
    };
    let pair = |line: &str| -> anyhow::Result<Pair> {
        let (prompt, reply) = line.split_once(',').context("a line has two numbers")?;
        Ok(cut(prompt.parse()?, reply.parse()?, context))
    };
    text.lines().skip(1).map(pair).collect()
}

/// A reply leaves at least one token of context for its prompt; the prompt gets the rest.
fn cut(prompt: u32, reply: u32, context: u32) -> Pair {
    let reply = reply.clamp(1, context - 1);
    (prompt.clamp(1, context - reply), reply)
}

/// Mean and variation of prompts and of replies.
#[must_use]
pub fn statistics(pairs: &[Pair]) -> (Lengths, Lengths) {
    let of = |get: fn(&Pair) -> u32| {
        let count = pairs.len() as f64;
        let mean = pairs.iter().map(|pair| f64::from(get(pair))).sum::<f64>() / count;
        let square = |pair: &Pair| (f64::from(get(pair)) - mean) * (f64::from(get(pair)) - mean);
        let variance = pairs.iter().map(square).sum::<f64>() / count;
        Lengths { mean, cv: libm::sqrt(variance) / mean }
    };
    (of(|pair| pair.0), of(|pair| pair.1))
}

/// Requests at `rate` a second for `window` seconds. The same seed gives the same requests in the
/// same order at every rate, only sooner or later.
#[must_use]
pub fn requests(pairs: &[Pair], rate: f64, window: f64, seed: u64) -> Vec<Request> {
    let (mut gaps, mut draws) = (Rng::new(seed).fork(1), Rng::new(seed).fork(2));
    let mut at = 0.0;
    let mut all = Vec::new();
    loop {
        at += gaps.exponential(1.0) / rate;
        if at > window {
            return all;
        }
        let (prompt, output) = pairs[draws.below(pairs.len())];
        all.push(Request { at: Time::from_nanos((at * 1e9) as u64), prompt, output });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The files have the published means; truncation keeps within the context; the rate is kept.
    #[test]
    fn lengths_are_those_of_the_traces() {
        let (prompt, reply) = statistics(&pairs("chat", 1 << 20).unwrap());
        assert!((prompt.mean - 858.0).abs() < 1.0 && (reply.mean - 653.0).abs() < 1.0);
        let (prompt, reply) = statistics(&pairs("summaries", 1 << 20).unwrap());
        assert!((prompt.mean / 2588.0 - 1.0).abs() < 0.03, "{prompt:?}");
        assert!((reply.mean / 291.0 - 1.0).abs() < 0.1, "{reply:?}");
        let cut = pairs("summaries", 2048).unwrap();
        assert!(cut.iter().all(|(prompt, reply)| prompt + reply <= 2048 && *prompt > 0));
        let count = requests(&cut, 20.0, 500.0, 1).len() as f64;
        assert!((count / 10_000.0 - 1.0).abs() < 0.05, "{count}");
        assert!(pairs("poems", 2048).is_err());
    }
}
