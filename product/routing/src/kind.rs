//! What replicas of one kind have in common: how long they take for a token of prefill, and by how much
//! one more running request lengthens their decode steps.
//!
//! Replicas with the same models, role and weight are of one kind, and all their answers measure one
//! estimate. One of them differs from it only by [`Evidence`], so that equal replicas have equal prices:
//! another GPU, and a degraded one, are found by their answers. Its samples are divided by what is known
//! of it before they count for the kind.

use alloc::vec::Vec;
use meridian_base::{Duration, ModelId, Role, Time};

use crate::evidence::Evidence;
use crate::replica::ReplicaSpec;
use crate::speed::{LONG, PrefillSpeed};
use crate::steps::{StepLine, StepSample};
use crate::usual::Usual;

/// A kind's figures are published when one has moved by this share, but not more often than this: each
/// time the rows of all its replicas change.
const NEWS: f64 = 0.05;
const PAUSE: Duration = Duration::from_millis(100);
/// How often the evidence of replicas is reviewed.
const REVIEW: Duration = Duration::from_secs(10);

/// By which replicas are of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KindKey {
    /// The least of its models, whatever their order.
    model: Option<ModelId>,
    role: Role,
    weight: u32,
}

impl KindKey {
    pub(crate) fn of(spec: &ReplicaSpec) -> KindKey {
        KindKey {
            model: spec.models.iter().min().copied(),
            role: spec.pool.role,
            weight: spec.weight,
        }
    }
}

/// The learned figures that prices depend on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LearnedFigures {
    /// t_p: ms of a token of prefill.
    pub(crate) ms_per_token: f64,
    /// ms of any first token.
    pub(crate) fixed_ms: f64,
    /// s: ms by which one more running request lengthens a step.
    pub(crate) step_slope_ms: f64,
}

/// What the answers of one replica prove about itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    prefill: Evidence,
    decode: Evidence,
    /// Whether its engine reports prefill times, which are more exact than times to the first token.
    reports: bool,
}

impl Own {
    pub(crate) const NONE: Own =
        Own { prefill: Evidence::NONE, decode: Evidence::NONE, reports: false };

    /// Lets the evidence age by so many seconds.
    pub(crate) fn age(&mut self, seconds: f64) {
        self.prefill.age(seconds);
        self.decode.age(seconds);
    }

    /// Takes off what its kind has taken over.
    pub(crate) fn shift(&mut self, [prefill, decode]: [f64; 2]) {
        self.prefill.shift(prefill);
        self.decode.shift(decode);
    }
}

/// By how much most of these replicas differ from their kind, as logarithms: of prefill, and of decode
/// steps.
pub(crate) fn common<'a>(all: impl Iterator<Item = &'a Own>) -> [f64; 2] {
    let (mut prefill, mut decode): (Vec<f64>, Vec<f64>) =
        all.map(|own| (own.prefill.proven(), own.decode.proven())).unzip();
    [median(&mut prefill), median(&mut decode)]
}

/// The median; 0 of nothing.
fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n => f64::midpoint(values[(n - 1) / 2], values[n / 2]),
    }
}

/// The time of one prompt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PromptTime {
    pub(crate) ttft_ms: f64,
    /// Tokens to compute, and those ahead of them.
    pub(crate) tokens: f64,
    pub(crate) in_front: f64,
}

/// One kind of replica.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    key: KindKey,
    speed: PrefillSpeed,
    steps: StepLine,
    /// The usual times of first tokens and of prefill as engines report it, by tokens, and of steps, by
    /// running requests.
    prompts: Usual,
    reports: Usual,
    batches: Usual,
    published: LearnedFigures,
    published_at: Option<Time>,
    /// When the evidence of its replicas was last reviewed.
    reviewed: Time,
}

impl Kind {
    /// A kind without answers, whose prefill takes `ms_per_token`.
    pub(crate) fn new(key: KindKey, ms_per_token: f64) -> Kind {
        let (speed, steps) = (PrefillSpeed::new(ms_per_token), StepLine::new(ms_per_token));
        let published = LearnedFigures {
            ms_per_token,
            fixed_ms: 0.0,
            step_slope_ms: steps.slope_ms(ms_per_token),
        };
        Kind {
            key,
            speed,
            steps,
            prompts: Usual::default(),
            reports: Usual::default(),
            batches: Usual::default(),
            published,
            published_at: None,
            reviewed: Time::ZERO,
        }
    }

    /// Starts as fast as another kind.
    pub(crate) fn start_as(&mut self, other: &Kind) {
        self.speed.assume(other.speed.ms_per_token());
        self.steps = other.steps.clone();
        self.published = LearnedFigures { fixed_ms: 0.0, ..other.published };
    }

    /// Whether it serves the same model as a kind of this key.
    pub(crate) fn serves_as(&self, key: KindKey) -> bool {
        self.key.model == key.model
    }

    pub(crate) fn is_of(&self, key: KindKey) -> bool {
        self.key == key
    }

    /// Starts a review of its replicas' evidence if it is time for one: the seconds since the last.
    pub(crate) fn start_review(&mut self, now: Time) -> Option<f64> {
        let since = now.since(self.reviewed);
        (since >= REVIEW).then(|| {
            self.reviewed = now;
            since.as_secs_f64()
        })
    }

    /// Takes over by how much most of its replicas have changed, as logarithms: that is no difference of
    /// one of them.
    pub(crate) fn shift(&mut self, [prefill, decode]: [f64; 2]) {
        let [prefill, decode] = [libm::exp(prefill), libm::exp(decode)];
        self.speed.scale(prefill);
        self.prompts.scale(prefill);
        self.reports.scale(prefill);
        self.steps.scale(decode);
        self.batches.scale(decode);
    }

    /// Whether there are samples from answers.
    pub(crate) fn is_learned(&self) -> bool {
        self.speed.is_learned()
    }

    /// t_p of the kind.
    pub(crate) fn ms_per_token(&self) -> f64 {
        self.speed.ms_per_token()
    }

    /// Starts from this speed if there are no answers.
    pub(crate) fn assume(&mut self, ms_per_token: f64) {
        self.speed.assume(ms_per_token);
    }

    /// Adds the first token of a replica.
    pub(crate) fn prompt(&mut self, own: &mut Own, prompt: PromptTime) {
        let PromptTime { ttft_ms, tokens, in_front } = prompt;
        let all = tokens + in_front;
        if all >= LONG && !own.reports {
            self.prompts.add(all, ttft_ms, &mut own.prefill);
        }
        self.speed.sample(ttft_ms / own.prefill.factor(), tokens, in_front);
    }

    /// Adds the prefill time that a replica's engine reports for `tokens`.
    pub(crate) fn reported(&mut self, own: &mut Own, ms: f64, tokens: f64) {
        if tokens >= LONG {
            if !own.reports {
                *own = Own { prefill: Evidence::NONE, reports: true, ..*own };
            }
            self.reports.add(tokens, ms, &mut own.prefill);
        }
        self.speed.reported(ms / own.prefill.factor(), tokens);
    }

    /// Adds an answer's steps.
    pub(crate) fn answered(&mut self, own: &mut Own, sample: StepSample) {
        self.batches.add(sample.running, sample.step_ms, &mut own.decode);
        self.steps.guess(self.speed.ms_per_token());
        let step_ms = sample.step_ms / own.decode.factor();
        self.steps.add(StepSample { step_ms, ..sample });
    }

    /// The figures of a replica of this kind.
    pub(crate) fn figures(&self, own: &Own) -> LearnedFigures {
        let LearnedFigures { ms_per_token, fixed_ms, step_slope_ms } = self.published;
        let (prefill, decode) = (own.prefill.factor(), own.decode.factor());
        LearnedFigures {
            ms_per_token: ms_per_token * prefill,
            fixed_ms: fixed_ms * prefill,
            step_slope_ms: step_slope_ms * decode,
        }
    }

    /// Publishes the figures if one of those that prices have has moved; whether it has.
    pub(crate) fn publish(&mut self, now: Time) -> bool {
        let figures = self.learned();
        let old = self.published;
        let moved = |new: f64, old: f64| (new - old).abs() > NEWS * old;
        let is_news = moved(figures.ms_per_token, old.ms_per_token)
            || moved(figures.step_slope_ms, old.step_slope_ms);
        let is_due = self.published_at.is_none_or(|at| now.since(at) >= PAUSE);
        if is_news && is_due {
            self.published_at = Some(now);
            self.published = figures;
        }
        is_news && is_due
    }

    /// Publishes the figures as they are.
    pub(crate) fn publish_all(&mut self, now: Time) {
        self.published_at = Some(now);
        self.published = self.learned();
    }

    fn learned(&self) -> LearnedFigures {
        let ms_per_token = self.speed.ms_per_token();
        LearnedFigures {
            ms_per_token,
            fixed_ms: self.speed.fixed_ms(),
            step_slope_ms: self.steps.slope_ms(ms_per_token),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: KindKey = KindKey { model: None, role: Role::Both, weight: 1 };

    fn at(turn: u64) -> Time {
        Time::from_millis(100 * turn)
    }

    /// The first token of a prompt of 1,000 tokens at a replica that takes `ms` for each.
    fn prompt(ms: f64) -> PromptTime {
        PromptTime { ttft_ms: 1000.0 * ms, tokens: 1000.0, in_front: 0.0 }
    }

    // Eight replicas whose samples scatter by a fifth have the same figures, and those of their mean.
    #[test]
    fn equal_replicas_are_equal() {
        let mut kind = Kind::new(KEY, 0.5);
        let mut own = [Own::NONE; 8];
        for turn in 0..400_usize {
            let scatter = 1.0 + 0.2 * libm::sin(turn as f64 * 12.9898);
            kind.prompt(&mut own[turn % 8], prompt(0.1 * scatter));
            kind.publish(at(turn as u64));
        }
        let first = kind.figures(&own[0]);
        assert!(own.iter().all(|own| kind.figures(own) == first));
        assert!((first.ms_per_token / 0.1 - 1.0).abs() < 0.1, "{first:?}");
    }

    // One of eight is half as fast from its hundredth answer on: it is known after forty more, and the
    // others look as they did.
    #[test]
    fn a_degraded_replica_stands_out() {
        let mut kind = Kind::new(KEY, 0.5);
        let mut own = [Own::NONE; 8];
        for turn in 0..140 {
            for (i, own) in own.iter_mut().enumerate() {
                let slow = if i == 3 && turn >= 100 { 2.0 } else { 1.0 };
                let scatter = 1.0 + 0.2 * libm::sin(f64::from(turn) * 12.9898 + i as f64);
                kind.prompt(own, prompt(0.1 * scatter * slow));
                kind.publish(at(turn as u64));
            }
        }
        let speeds = own.map(|own| kind.figures(&own).ms_per_token);
        assert!(speeds[3] / speeds[0] > 1.3, "{speeds:?}");
        assert!((speeds[0] / 0.1 - 1.0).abs() < 0.15, "{speeds:?}");
    }

    // One after the other becomes half as fast. In the end that is no difference of one of them, so a new
    // replica is taken to be as slow.
    #[test]
    fn a_change_of_all_is_no_difference() {
        let mut kind = Kind::new(KEY, 0.5);
        let mut own = [Own::NONE; 8];
        for turn in 0..900_usize {
            for (i, own) in own.iter_mut().enumerate() {
                let slow = if turn >= 50 * (1 + i) { 2.0 } else { 1.0 };
                let scatter = 1.0 + 0.2 * libm::sin(turn as f64 * 12.9898 + i as f64);
                kind.prompt(own, prompt(0.1 * scatter * slow));
                kind.publish(at(turn as u64));
            }
            if turn % 50 == 0 {
                let common = common(own.iter());
                own.iter_mut().for_each(|own| own.shift(common));
                kind.shift(common);
            }
        }
        kind.publish_all(at(900));
        let new = kind.figures(&Own::NONE).ms_per_token;
        assert!((new / 0.2 - 1.0).abs() < 0.1, "{new}");
        let speeds = own.map(|own| kind.figures(&own).ms_per_token);
        assert!(speeds.iter().all(|speed| (speed / 0.2 - 1.0).abs() < 0.1), "{speeds:?}");
    }

    // The figures are published when they have moved, and not with each sample.
    #[test]
    fn figures_are_news_now_and_then() {
        let mut kind = Kind::new(KEY, 0.1);
        let mut own = Own::NONE;
        let mut news = 0;
        for turn in 0..100 {
            let scatter = 1.0 + 0.02 * libm::sin(f64::from(turn) * 12.9898);
            kind.prompt(&mut own, prompt(0.2 * scatter));
            news += u32::from(kind.publish(at(turn as u64)));
        }
        assert!((1..20).contains(&news), "{news}");
    }
}
