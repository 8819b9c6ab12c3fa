//! Step time: a roofline with fitted terms.
//!
//! A step multiplies T tokens with every matrix. The matrices are read from memory once per step,
//! whatever T is, and computed once per token. A step therefore costs about the larger of the two:
//! reading when few tokens share it (decode), computing when many do (prefill). Attention adds its
//! own reading (each decode reads its whole context) and computing (each prompt token attends to
//! all before it). The reductions between GPUs and the engine's own time outside the GPU come on
//! top.
//!
//! ```text
//! gpu = sqrt(W^2 + (token T + head S)^2) + kv C + pair P + reduce + token_reduce T
//! W   = weights + experts (1 - exp(-touch T))
//! t   = gpu + step + sequence S           of decodes alone
//! t   = max(gpu, launch) + step + sequence S   with prompts in it
//! ```
//! with T tokens, S sequences, C tokens of context read by decodes, P query-context pairs of
//! prefill. The root of squares is the larger of the two with a soft knee: near it, kernels reach
//! neither roof (measured GEMM tables of the H100 sit 20 to 30 % above both there).
//!
//! In a mixture of experts a step reads only the experts that its tokens choose: if each token
//! chooses k of n at random, (1 - k/n)^T of them stay untouched. Decodes run as one CUDA graph. A
//! step with prompts launches each kernel separately, and is never faster than that.
//!
//! Ranks that share experts step together, each with its own prompts. With fewer prompts than ranks
//! some ranks wait, and a step takes as long as if they had prompts too.
//!
//! It does not model kernels, tiles, clocks, or experts that are chosen more often than others.

use meridian_base::Duration;

/// The work of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Tokens computed.
    pub tokens: f64,
    /// Sequences in the batch.
    pub sequences: f64,
    /// Tokens of context that the decodes read.
    pub context: f64,
    /// Pairs of a prompt token and a token at or before it.
    pub pairs: f64,
    /// Sequences that compute prompt tokens.
    pub prompts: f64,
}

impl Work {
    /// Adds one decode with `context` tokens of context.
    pub fn decode(&mut self, context: u32) {
        self.tokens += 1.0;
        self.sequences += 1.0;
        self.context += f64::from(context);
    }

    /// Adds a chunk of `new` prompt tokens after `before` computed ones.
    pub fn prefill(&mut self, before: u32, new: u32) {
        let (before, new) = (f64::from(before), f64::from(new));
        self.tokens += new;
        self.sequences += 1.0;
        self.prompts += 1.0;
        self.pairs += new * (before + (new + 1.0) / 2.0);
    }
}

/// The step-time terms of a replica, in seconds a unit: reading and computing of the matrices,
/// attention, reductions between GPUs, and the engine's time outside the GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Terms {
    /// Reading all weights that every token needs, once.
    pub weights: f64,
    /// Reading all experts once; 0 in a dense model.
    pub experts: f64,
    /// Share of the untouched experts that one more token touches.
    pub touch: f64,
    /// Computing one token.
    pub token: f64,
    /// Computing the output head for one sequence.
    pub head: f64,
    /// Ranks that compute prompts of their own and step together; 0 or 1 is one.
    pub ranks: f64,
    /// Reading one token of context.
    pub kv: f64,
    /// One query-context pair.
    pub pair: f64,
    /// Latency of a step's reductions.
    pub reduce: f64,
    /// Moving one token through the reductions.
    pub token_reduce: f64,
    /// Minimum time of a step with prompts.
    pub launch: f64,
    /// Fixed time of a step.
    pub step: f64,
    /// Time for each sequence.
    pub sequence: f64,
}

impl Terms {
    /// The time of one step, in seconds.
    #[must_use]
    pub fn seconds(&self, work: &Work) -> f64 {
        let unshared = self.unshared(work.prompts);
        let decodes = work.sequences - work.prompts;
        let tokens = decodes + unshared * (work.tokens - decodes);
        let compute = self.token * tokens + self.head * work.sequences;
        let weights = self.weights + self.experts_read(work.tokens);
        let matrices = libm::sqrt(weights * weights + compute * compute);
        let attention = self.kv * work.context + self.pair * work.pairs * unshared;
        let reductions = self.reduce + self.token_reduce * tokens;
        let gpu = matrices + attention + reductions;
        let gpu = if work.prompts > 0.0 { gpu.max(self.launch) } else { gpu };
        gpu + self.step + self.sequence * work.sequences
    }

    /// The factor by which prompts slow down when only some ranks have any.
    fn unshared(&self, prompts: f64) -> f64 {
        if prompts > 0.0 { (self.ranks / prompts).max(1.0) } else { 1.0 }
    }

    /// The time to read the experts that `tokens` tokens touch.
    fn experts_read(&self, tokens: f64) -> f64 {
        if self.experts == 0.0 {
            return 0.0;
        }
        self.experts * (1.0 - libm::exp(-self.touch * tokens))
    }
}

/// A duration of `seconds`, at least a nanosecond, so that time always advances.
pub(crate) fn duration(seconds: f64) -> Duration {
    Duration::from_nanos((seconds * 1e9).max(1.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    // A chunked prompt has the same pairs as a whole one: chunking costs steps, not attention.
    #[test]
    fn chunks_add_up_to_the_whole() {
        let (mut whole, mut chunks) = (Work::default(), Work::default());
        whole.prefill(0, 1000);
        chunks.prefill(0, 300);
        chunks.prefill(300, 700);
        assert_eq!(whole.pairs, chunks.pairs);
        assert_eq!(whole.tokens, chunks.tokens);
    }

    // One token reads the experts it chooses, many read all; a dense model reads none.
    #[test]
    fn experts_are_read_as_they_are_touched() {
        let touch = -libm::log(1.0 - 8.0 / 128.0);
        let terms = Terms { experts: 0.016, touch, ..Terms::default() };
        let at = |tokens| terms.seconds(&Work { tokens, ..Work::default() });
        assert!((at(1.0) - 0.001).abs() < 1e-9);
        assert!(at(16.0) > 0.010 && at(16.0) < 0.011);
        assert!((at(1000.0) - 0.016).abs() < 1e-9);
    }

    // Kernel launches are a lower bound for steps with prompts, and do not affect decodes.
    #[test]
    fn prompts_take_at_least_their_launches() {
        let terms = Terms { weights: 0.010, launch: 0.030, step: 0.001, ..Terms::default() };
        let mut decode = Work::default();
        decode.decode(100);
        let mut mixed = decode;
        mixed.prefill(0, 10);
        assert!((terms.seconds(&decode) - 0.011).abs() < 1e-9);
        assert!((terms.seconds(&mixed) - 0.031).abs() < 1e-9);
    }

    // One prompt on one of two ranks takes as long as two prompts, one on each; decodes are spread
    // evenly.
    #[test]
    fn a_prompt_alone_is_not_shared_out() {
        let terms = Terms { token: 0.001, pair: 1e-6, ranks: 2.0, ..Terms::default() };
        let (mut one, mut two, mut decodes) = (Work::default(), Work::default(), Work::default());
        one.prefill(0, 100);
        (0..2).for_each(|_| two.prefill(0, 100));
        (0..3).for_each(|_| decodes.decode(10));
        assert!((terms.seconds(&one) - terms.seconds(&two)).abs() < 1e-12);
        assert!((terms.seconds(&decodes) - 0.003).abs() < 1e-12);
    }

    // The two roofs: few tokens cost the reading, many the computing.
    #[test]
    fn the_roofs_meet_softly() {
        let terms = Terms { weights: 0.010, token: 0.0001, ..Terms::default() };
        let at = |tokens| terms.seconds(&Work { tokens, ..Work::default() });
        assert!((at(1.0) / 0.010 - 1.0).abs() < 0.001);
        assert!((at(10_000.0) / 1.0 - 1.0).abs() < 0.001);
        assert!(at(100.0) > 0.010 * 1.3);
    }
}
