//! Rate limits of tenants: requests and tokens per minute.
//!
//! A request is charged when it arrives: one request, its estimated prompt, and the longest reply
//! it allows. When it ends, the charge is corrected to the engine's token count. The limits hold over
//! this gateway and its siblings (`shared.rs`), and a forwarded request is charged by the gateway that
//! received it from the client.

mod bucket;
mod charge;
mod shared;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use meridian_base::keyed;
use meridian_config::{self as config, TenantLimits};

use self::bucket::{Bucket, Over};
pub(crate) use self::charge::Charge;
pub(crate) use self::shared::{SharedRates, Units};
use crate::refusal::{Limited, Refusal};

/// Assumed tokens of a reply without a limit, until actual replies are known.
const REPLY: f32 = 256.0;
/// Keys the hashes of models' names, so that no tenant of the same name has that hash.
const OF_MODEL: u64 = 1;
/// Weight of one reply in the mean.
const GAIN: f32 = 0.05;

/// OpenAI's headers for a limit, its remainder, and the time until it is full again.
static REQUESTS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-requests"),
    HeaderName::from_static("x-ratelimit-remaining-requests"),
    HeaderName::from_static("x-ratelimit-reset-requests"),
];
static TOKENS: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit-tokens"),
    HeaderName::from_static("x-ratelimit-remaining-tokens"),
    HeaderName::from_static("x-ratelimit-reset-tokens"),
];

/// A tenant's limits, or a model's, and their current use.
#[derive(Debug)]
pub(crate) struct Rates {
    /// The hash of the name.
    tenant: u64,
    shared: Arc<SharedRates>,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    /// Mean tokens of replies without a limit, as bits.
    reply: AtomicU32,
}

impl Rates {
    pub(crate) fn new(
        tenant: u64,
        limits: &TenantLimits,
        shared: &Arc<SharedRates>,
    ) -> Option<Arc<Rates>> {
        let rates = Rates {
            tenant,
            shared: shared.clone(),
            requests: limits.requests_per_minute.map(Bucket::new),
            tokens: limits.tokens_per_minute.map(Bucket::new),
            reply: AtomicU32::new(REPLY.to_bits()),
        };
        (!limits.is_empty()).then(|| Arc::new(rates))
    }

    /// Charges a request with `prompt` tokens and `replies` replies of at most `reply` tokens each;
    /// `None` means no limit.
    pub(crate) fn admit(
        self: &Arc<Self>,
        prompt: u32,
        reply: Option<u32>,
        replies: u32,
    ) -> Result<Charge, Refusal> {
        let tokens = self.tokens_of(prompt, reply, replies);
        if let Some(bucket) = &self.tokens
            && tokens > bucket.size()
        {
            return Err(self.never(tokens, bucket.size()));
        }
        let weight = self.shared.weight();
        self.take_request(weight)?;
        let units = |bucket: &Bucket| tokens.saturating_mul(weight).min(bucket.size());
        if let Some(Err(over)) = self.tokens.as_ref().map(|bucket| bucket.take(units(bucket))) {
            // The request is refused, so it does not count against the request limit either.
            self.requests.iter().for_each(|bucket| bucket.settle(weight.min(bucket.size()), 0));
            return Err(self.over("tokens", tokens, &over));
        }
        self.shared.note(self.tenant, 1, tokens.into());
        let unbounded = if reply.is_none() { replies } else { 0 };
        Ok(Charge::new(self.clone(), prompt, tokens, weight, unbounded))
    }

    /// Charges one request that is refused as a mistake of its client.
    pub(crate) fn mistake(&self) -> Result<(), Refusal> {
        self.take_request(self.shared.weight())?;
        self.shared.note(self.tenant, 1, 0);
        Ok(())
    }

    fn take_request(&self, weight: u32) -> Result<(), Refusal> {
        let taken = self.requests.as_ref().map(|bucket| bucket.take(weight.min(bucket.size())));
        match taken {
            Some(Err(over)) => Err(self.over("requests", 1, &over)),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// The tokens to charge for a request. A reply without a limit counts as the mean, but never as
    /// more than the tenant's limit allows: it may well be shorter.
    fn tokens_of(&self, prompt: u32, reply: Option<u32>, replies: u32) -> u32 {
        let most = self.tokens.as_ref().map_or(u32::MAX, Bucket::size);
        let mean = || self.mean_reply().saturating_mul(replies).min(most.saturating_sub(prompt));
        prompt.saturating_add(reply.map_or_else(mean, |reply| reply.saturating_mul(replies)))
    }

    fn mean_reply(&self) -> u32 {
        f32::from_bits(self.reply.load(Ordering::Relaxed)).ceil() as u32
    }

    /// Learns the length of a reply that had no limit.
    fn learn(&self, tokens: u32) {
        let mean = f32::from_bits(self.reply.load(Ordering::Relaxed));
        // Two racing updates lose one sample of many.
        let mean = mean + GAIN * (tokens as f32 - mean);
        self.reply.store(mean.to_bits(), Ordering::Relaxed);
    }

    /// Learns a minimum length: a reply that was cut short can only raise the mean.
    fn learn_at_least(&self, tokens: u32) {
        if tokens > self.mean_reply() {
            self.learn(tokens);
        }
    }

    /// Corrects a charge of `taken` tokens, each of which took `weight` units, to the `used` ones.
    fn settle(&self, taken: u32, used: u32, weight: u32) {
        let units = |tokens: u32| tokens.saturating_mul(weight);
        if let Some(bucket) = &self.tokens {
            bucket.settle(units(taken).min(bucket.size()), units(used));
        }
        self.shared.note(self.tenant, 0, i64::from(used) - i64::from(taken));
    }

    fn limited(&self, limit: &'static str) -> Box<Limited> {
        let mut headers = HeaderMap::new();
        self.write(&mut headers);
        Box::new(Limited { limit, headers })
    }

    fn over(&self, limit: &'static str, asked: u32, over: &Over) -> Refusal {
        let Over { size, remaining, wait } = over;
        let seconds = wait.as_nanos().div_ceil(1_000_000_000).max(1);
        let message = format!(
            "the limit of {size} {limit} per minute is reached: {remaining} are left, and this request needs {asked}; retry in {seconds} s"
        );
        Refusal {
            limited: Some(self.limited(limit)),
            ..Refusal::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded", message)
        }
        .retry_after(Duration::from_secs(u64::try_from(seconds).unwrap_or(u64::MAX)))
    }

    fn never(&self, asked: u32, size: u32) -> Refusal {
        let message = format!(
            "this request may need {asked} tokens for prompt and reply, and the limit is {size} per minute, so no retry can succeed; shorten the prompt, or lower max_tokens"
        );
        Refusal {
            limited: Some(self.limited("request_size")),
            ..Refusal::new(StatusCode::BAD_REQUEST, "request_exceeds_limit", message)
        }
    }

    /// Writes the remaining limits into an answer's headers.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        for (names, bucket) in [(&REQUESTS, &self.requests), (&TOKENS, &self.tokens)] {
            let Some(bucket) = bucket else { continue };
            let (remaining, reset) = bucket.left();
            let reset = HeaderValue::from_str(&time(reset)).expect("digits are a header value");
            let values = [bucket.size().into(), remaining.into(), reset];
            for (name, value) in names.iter().zip(values) {
                headers.insert(name, value);
            }
        }
    }
}

/// A duration in OpenAI's form: `120ms`, `7.5s`, `1m12s`.
fn time(time: Duration) -> String {
    let ms = time.as_nanos().div_ceil(1_000_000);
    let seconds = time.as_nanos().div_ceil(1_000_000_000);
    match ms {
        0..1_000 => format!("{ms}ms"),
        1_000..60_000 => format!("{}s", ms as f64 / 1e3),
        _ => format!("{}m{}s", seconds / 60, seconds % 60),
    }
}

/// The limits in force, by tenant. On a reload, a tenant with unchanged limits keeps its current
/// use.
#[derive(Debug, Default)]
pub(crate) struct RatesByTenant {
    /// By the hash of the tenant's name, with which siblings name it.
    kept: Mutex<HashMap<u64, (TenantLimits, Arc<Rates>)>>,
    /// Those of models (`models.rs`), by the hash of each name.
    models: Mutex<HashMap<u64, Arc<Rates>>>,
    pub(crate) shared: Arc<SharedRates>,
}

impl RatesByTenant {
    /// The limits of these tenants, in their order; the state of other tenants is dropped.
    pub(crate) fn of(&self, tenants: &[config::Tenant]) -> Vec<Option<Arc<Rates>>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *kept);
        let each = tenants.iter().map(|tenant| {
            let hash = keyed(0, tenant.name.as_bytes());
            let same = before.get(&hash).filter(|(limits, _)| *limits == tenant.limits);
            let rates = match same {
                Some((_, rates)) => rates.clone(),
                None => Rates::new(hash, &tenant.limits, &self.shared)?,
            };
            kept.insert(hash, (tenant.limits, rates.clone()));
            Some(rates)
        });
        each.collect()
    }

    /// New limits of a model, whose siblings know it by its name.
    pub(crate) fn of_model(&self, model: &str, limits: &TenantLimits) -> Option<Arc<Rates>> {
        Rates::new(keyed(OF_MODEL, model.as_bytes()), limits, &self.shared)
    }

    /// Sets the limits of all models that have some.
    pub(crate) fn set_models(&self, rates: impl Iterator<Item = Arc<Rates>>) {
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        *models = rates.map(|rates| (rates.tenant, rates)).collect();
    }
}

#[cfg(test)]
mod tests {
    use meridian_routing::Usage;

    use super::*;

    // Durations are written in the form that OpenAI's clients read, rounded up.
    #[test]
    fn times() {
        let written = |nanos| time(Duration::from_nanos(nanos));
        assert_eq!(written(0), "0ms");
        assert_eq!(written(1), "1ms");
        assert_eq!(written(7_500_000_000), "7.5s");
        assert_eq!(written(59_999_000_001), "1m0s");
        assert_eq!(written(72_000_000_001), "1m13s");
    }

    fn limit_of(refused: Result<Charge, Refusal>) -> &'static str {
        refused.expect_err("is over").limited.expect("by a limit").limit
    }

    fn rates_of(limits: &TenantLimits) -> Option<Arc<Rates>> {
        Rates::new(7, limits, &Arc::default())
    }

    fn limits(requests: Option<u32>, tokens: Option<u32>) -> TenantLimits {
        TenantLimits { requests_per_minute: requests, tokens_per_minute: tokens }
    }

    // A request refused for its tokens does not count as a request. One that could never pass gets
    // its own error and charges nothing.
    #[tokio::test(start_paused = true)]
    async fn a_refused_request_is_free() {
        let rates = rates_of(&limits(Some(2), Some(100))).expect("there are limits");
        let _first = rates.admit(60, Some(0), 1).expect("fits");
        let refused = rates.admit(50, Some(0), 1).expect_err("40 are left");
        assert_eq!((refused.code, refused.status.as_u16()), ("rate_limit_exceeded", 429));
        let never = rates.admit(50, Some(51), 1).expect_err("is 101");
        assert_eq!((never.code, never.status.as_u16()), ("request_exceeds_limit", 400));
        let _second = rates.admit(40, Some(0), 1).expect("both limits admit it");
        assert_eq!(limit_of(rates.admit(0, Some(0), 1)), "requests");
    }

    // A reply without a limit is charged at the mean of earlier ones, never above the tenant's
    // limit.
    #[tokio::test(start_paused = true)]
    async fn unbounded_replies_are_learned() {
        let rates = rates_of(&limits(None, Some(1000))).expect("there are limits");
        assert_eq!((rates.tokens_of(10, None, 1), rates.tokens_of(900, None, 1)), (266, 1000));
        (0..200).for_each(|_| rates.learn(20));
        assert_eq!(rates.tokens_of(10, None, 1), 31);
        assert_eq!(rates.tokens_of(1001, None, 1), 1001, "a prompt that is too long stays so");
    }

    // Each of several replies is charged, with or without a limit, and the mean is per reply.
    #[tokio::test(start_paused = true)]
    async fn several_replies() {
        let rates = rates_of(&limits(None, Some(10_000))).expect("there are limits");
        assert_eq!((rates.tokens_of(10, Some(20), 50), rates.tokens_of(10, None, 4)), (1010, 1034));
        let mut charge = rates.admit(10, None, 4).expect("fits");
        charge.counted(Usage { completion_tokens: 4 * 256, ..Usage::default() });
        drop(charge);
        assert_eq!(rates.mean_reply(), 256);
    }

    // The part of an uncounted reply that was delivered is charged, and raises the mean; a short
    // beginning does not count as a reply.
    #[tokio::test(start_paused = true)]
    async fn what_was_seen_is_charged() {
        let rates = rates_of(&limits(None, Some(10_000))).expect("there are limits");
        let left = || rates.tokens.as_ref().map(|bucket| bucket.left().0);
        let mut charge = rates.admit(10, None, 1).expect("fits");
        charge.seen(3);
        drop(charge);
        assert_eq!((left(), rates.mean_reply()), (Some(10_000 - 266), 256));
        let mut charge = rates.admit(10, None, 1).expect("fits");
        charge.seen(3000);
        charge.seen(1000);
        drop(charge);
        assert_eq!((left(), rates.mean_reply()), (Some(10_000 - 266 - 4010), 444));
    }

    // Unchanged limits keep their state on a reload; others start full.
    #[tokio::test(start_paused = true)]
    async fn unchanged_limits_keep_their_state() {
        let tenant = |name: &str, requests| config::Tenant {
            name: name.to_owned(),
            limits: limits(requests, None),
            ..config::Tenant::default()
        };
        let kept = RatesByTenant::default();
        let used = |rates: &[Option<Arc<Rates>>]| -> Vec<Option<u32>> {
            let left = |rates: &Arc<Rates>| rates.requests.as_ref().map(|b| b.left().0);
            rates.iter().map(|rates| rates.as_ref().and_then(left)).collect()
        };
        let first = kept.of(&[tenant("a", Some(5)), tenant("b", Some(5)), tenant("c", None)]);
        first.iter().flatten().for_each(|rates| drop(rates.admit(0, None, 1)));
        let again = kept.of(&[tenant("c", None), tenant("b", Some(6)), tenant("a", Some(5))]);
        assert_eq!(used(&again), [None, Some(6), Some(4)]);
    }
}
