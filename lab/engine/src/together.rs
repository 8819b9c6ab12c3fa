//! Step time of ranks that share the experts of a model and step together.
//!
//! All ranks synchronise in every layer with experts: the tokens of all are gathered, each rank
//! computes those of its experts, and the results are returned. A step therefore takes as long as
//! the busiest rank's. Only the shared experts compute no more tokens than there are.
//!
//! ```text
//! t = step of as many ranks as busy as the busiest, but for the experts of those that are not
//!   + uneven + mixed C                      with prompts in it
//! ```
//! The gather costs half of an all-reduce, and so does the return. Ranks with equal numbers of
//! tokens use one ring. Prompts make the numbers unequal, and then the ranks send in turn (vLLM's
//! gather of unequal sizes). C is the context that decodes read, which is slower if the same kernel
//! also computes a prompt.
//!
//! It does not model experts that are chosen more often than others, or on which rank they are.

use crate::cost::{Terms, Work};
use crate::profile::Profile;

/// The terms of a step that ranks take together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Together {
    terms: Terms,
    ranks: u32,
    /// The experts' share of a token's computing.
    experts: f64,
    /// The latency that prompts add to a step's exchanges, in seconds.
    uneven: f64,
    /// The time that they add to reading one token of context, in seconds.
    mixed: f64,
}

impl Together {
    /// `ranks` with the profile of [`Profile::expert_parallel`] each. In a step with prompts,
    /// decodes take `mixed` times as long to read their context, at least 1.
    #[must_use]
    pub fn new(profile: &Profile, ranks: u32, mixed: f64) -> Together {
        let (terms, ranks) = (profile.terms, ranks.max(1));
        let (model, others) = (&profile.model, f64::from(ranks - 1));
        Together {
            terms,
            ranks,
            experts: 1.0 - model.common_params() / model.linear_params(),
            uneven: others * terms.reduce,
            mixed: (mixed - 1.0) * terms.kv,
        }
    }

    /// How many they are.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The time of one step, in seconds, given the work of each rank.
    #[must_use]
    pub fn seconds(&self, ranks: &[Work]) -> f64 {
        let most =
            |of: fn(&Work) -> f64| f64::from(self.ranks) * ranks.iter().map(of).fold(0.0, f64::max);
        let tokens = most(|rank| rank.tokens);
        let idle = tokens - ranks.iter().map(|rank| rank.tokens).sum::<f64>();
        // If all are equally busy this is 0. The saving of the experts is subtracted from the
        // tokens.
        let saved = idle * self.experts;
        let work = Work {
            tokens: tokens - saved,
            sequences: most(|rank| rank.sequences),
            context: most(|rank| rank.context),
            pairs: most(|rank| rank.pairs),
            prompts: most(|rank| rank.prompts),
        };
        // The busiest sends all of its tokens.
        let seconds = self.terms.seconds(&work) + self.terms.token_reduce * saved;
        if work.prompts > 0.0 { seconds + self.uneven + self.mixed * work.context } else { seconds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn together(ranks: u32, mixed: f64, terms: Terms) -> Together {
        let profile = Profile::named("qwen3-30b-a3b", "h100", 1).unwrap();
        Together::new(&Profile { terms, ..profile }, ranks, mixed)
    }

    fn prompt(tokens: u32) -> Work {
        let mut work = Work::default();
        work.prefill(0, tokens);
        work
    }

    fn decodes(count: u32) -> Work {
        let mut work = Work::default();
        (0..count).for_each(|_| work.decode(1000));
        work
    }

    // One rank takes as long as an engine without ranks.
    #[test]
    fn one_rank_has_no_one_to_wait_for() {
        let terms = Profile::named("qwen3-30b-a3b", "h100", 1).unwrap().terms;
        for work in [prompt(1000), decodes(30)] {
            assert_eq!(together(1, 1.0, terms).seconds(&[work]), terms.seconds(&work));
        }
    }

    // A waiting rank saves its experts' computing and nothing else; more of one kind of work on a
    // rank is not offset by less of another.
    #[test]
    fn ranks_take_as_long_as_the_busiest() {
        let terms = Terms { token: 0.001, token_reduce: 0.001, kv: 1e-6, ..Terms::default() };
        let two = together(2, 1.0, terms);
        let both = two.seconds(&[prompt(100), prompt(100)]);
        let alone = two.seconds(&[prompt(100), Work::default()]);
        assert!((both - alone - 0.1 * two.experts).abs() < 1e-12);
        assert!(two.experts > 0.6 && two.experts < 0.8);
        let mixed = two.seconds(&[prompt(100), decodes(100)]);
        assert!((mixed - both - 200_000.0 * 1e-6).abs() < 1e-12);
    }

    // With prompts in the step, context is read more slowly and exchanges go in turn; decodes alone
    // have neither, however uneven.
    #[test]
    fn a_mixed_step_has_costs_of_its_own() {
        let terms = Terms { kv: 1e-6, reduce: 0.002, ..Terms::default() };
        let [plain, two] = [together(1, 1.0, terms), together(2, 3.0, terms)];
        let one = terms.seconds(&decodes(2));
        assert_eq!(plain.seconds(&[decodes(2)]), one);
        assert!((two.seconds(&[decodes(1), Work::default()]) - one).abs() < 1e-12);
        let mut work = decodes(1);
        work.prefill(0, 10);
        let seconds = two.seconds(&[work, Work::default()]);
        assert!((seconds - one - 0.002 - 2000.0 * 2e-6).abs() < 1e-12);
    }
}
