//! Expected replies: how long they are, and how much KV memory they will still take.
//!
//! A request takes memory for its prompt when it starts and for one more token in each step. The
//! length of its reply is not known, but requests of one class (tenant, model, limit of the reply,
//! length of the prompt) have similar ones, so their mean is learned.
//!
//! How much memory should a replica keep free for the replies of its n requests? Suppose that
//! lengths are exponential with mean L, and that each request takes c tokens now. After t steps
//! n e^(-t/L) of them are left, with c + t tokens each. This is largest at t = L - c, or now if c is
//! above L. The growth from now until then is
//!
//! ```text
//! growth = n (L e^(c/L - 1) - c)    if c < L, otherwise 0
//! ```
//!
//! Long prompts with short replies need no reserve: the requests that end free more than the others
//! take. The estimate follows the requests while they run, because c is what the engine reports.

use alloc::collections::BTreeMap;
use meridian_base::mix;

use crate::request::Request;

/// Tokens of a reply until replies have been seen.
const UNKNOWN: f32 = 350.0;
/// Most classes; requests of further ones get the mean of their model.
const MOST: usize = 4096;
/// Weight of the model's mean in a class, in replies.
const PRIOR: f32 = 8.0;
/// A mean follows at least this share of a new reply's difference.
const GAIN: f32 = 0.02;

/// The KV tokens by which `n` requests with a mean reply of `reply` tokens will grow, if each takes
/// `each` now.
pub(crate) fn growth(n: f32, reply: f32, each: f32) -> f32 {
    if each >= reply || reply <= 0.0 {
        return 0.0;
    }
    n * (reply * libm::expf(each / reply - 1.0) - each)
}

/// Mean tokens of replies by class of request.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    classes: BTreeMap<u64, Mean>,
    models: BTreeMap<u64, Mean>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    replies: f32,
    tokens: f32,
}

impl Mean {
    fn add(&mut self, tokens: f32) {
        self.replies += 1.0;
        self.tokens += (tokens - self.tokens) * (1.0 / self.replies).max(GAIN);
    }

    /// The mean, where `prior` counts as a few replies.
    fn or(self, prior: f32) -> f32 {
        (self.tokens * self.replies + prior * PRIOR) / (self.replies + PRIOR)
    }
}

impl Replies {
    /// The expected reply of a request, in tokens.
    pub(crate) fn expected(&self, request: &Request) -> f32 {
        let model = self.models.get(&model(request)).map_or(UNKNOWN, |mean| mean.or(UNKNOWN));
        let expected = self.classes.get(&class(request)).map_or(model, |mean| mean.or(model));
        request.max_tokens.map_or(expected, |most| expected.min(most as f32))
    }

    /// Records the tokens of a complete reply.
    pub(crate) fn learn(&mut self, request: &Request, tokens: u32) {
        let class = class(request);
        if self.classes.len() < MOST || self.classes.contains_key(&class) {
            self.classes.entry(class).or_default().add(tokens as f32);
        }
        assert!(self.classes.len() <= MOST, "classes of requests are bounded");
        let model = model(request);
        if self.models.len() < MOST || self.models.contains_key(&model) {
            self.models.entry(model).or_default().add(tokens as f32);
        }
    }
}

fn model(request: &Request) -> u64 {
    u64::from(request.model.0)
}

/// Lengths count by powers of two.
fn class(request: &Request) -> u64 {
    let power = |tokens: u32| u64::from(tokens.checked_ilog2().unwrap_or(0));
    let lengths = power(request.max_tokens.unwrap_or(0)) << 8 | power(request.prompt_tokens);
    mix(mix(request.tenant, model(request)), lengths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use meridian_base::{ModelId, RequestId};

    fn request(tenant: u64, prompt_tokens: u32, max_tokens: Option<u32>) -> Request {
        Request { tenant, prompt_tokens, max_tokens, ..Request::plain(RequestId(1), ModelId(0)) }
    }

    // The reserve is the largest sum over the future, found here by trying every step.
    #[test]
    fn growth_is_the_largest_sum() {
        for (reply, each) in [(900.0, 100.0), (900.0, 600.0), (200.0, 140.0), (100.0, 400.0)] {
            let n = 50.0_f32;
            let used = |t: f32| n * libm::expf(-t / reply) * (each + t);
            let most = (0..5000).map(|t| used(t as f32)).fold(0.0, f32::max);
            let error = (n * each + growth(n, reply, each) - most).abs() / most;
            assert!(error < 1e-3, "{reply} {each}: {error}");
        }
    }

    // Classes have means of their own, a new class has the model's, and no reply is expected to be
    // longer than its limit.
    #[test]
    fn replies_are_learned_by_class() {
        let mut replies = Replies::default();
        assert_eq!(replies.expected(&request(1, 100, None)), UNKNOWN);
        for _ in 0..200 {
            replies.learn(&request(1, 100, None), 20);
            replies.learn(&request(2, 100, None), 2000);
        }
        let expected = |tenant, most| replies.expected(&request(tenant, 100, most));
        assert!(expected(1, None) < 250.0 && expected(2, None) > 1700.0);
        assert!((500.0..1500.0).contains(&expected(3, None)), "{}", expected(3, None));
        assert_eq!(expected(2, Some(64)), 64.0);
    }
}
