//! What clients measured: quantiles over some of the finished requests.

use std::time::Duration;

use meridian_base::sorted_quantile;

use super::finished::Finished;

/// The measurements of some requests. Times are in ms, none before the first answer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Tallied {
    /// Complete answers.
    pub(super) answers: u64,
    /// Requests that ended otherwise.
    pub(super) lost: u64,
    /// TTFT of complete answers.
    pub(super) p50: Option<f64>,
    pub(super) p90: Option<f64>,
    pub(super) p99: Option<f64>,
    /// Median time of complete answers, from the first byte sent to the last received.
    pub(super) whole: Option<f64>,
    /// Cached share of the prompt tokens.
    pub(super) cached: Option<f64>,
}

impl Tallied {
    pub(super) fn of<'a>(requests: impl IntoIterator<Item = &'a Finished>) -> Tallied {
        let (mut ttft, mut whole) = (Vec::new(), Vec::new());
        let (mut prompt, mut cached, mut lost) = (0, 0, 0);
        for request in requests {
            if !request.ok {
                lost += 1;
                continue;
            }
            ttft.extend(request.ttft_ms);
            whole.push(request.e2e_ms);
            prompt += request.prompt_tokens;
            cached += request.cached_tokens;
        }
        ttft.sort_by(f64::total_cmp);
        whole.sort_by(f64::total_cmp);
        let of = |share| sorted_quantile(&ttft, share);
        Tallied {
            answers: whole.len() as u64,
            lost,
            p50: of(0.5),
            p90: of(0.9),
            p99: of(0.99),
            whole: sorted_quantile(&whole, 0.5),
            cached: (prompt > 0).then(|| cached as f64 / prompt as f64),
        }
    }

    /// Answers a second, of those in a time.
    pub(super) fn rate(&self, length: Duration) -> f64 {
        self.answers as f64 / length.as_secs_f64().max(1.0)
    }
}

/// The requests that ended after `since`. They are in the order of their ends.
pub(super) fn ended_after(all: &[Finished], since: Duration) -> &[Finished] {
    &all[all.partition_point(|request| request.at <= since)..]
}

#[cfg(test)]
mod tests {
    use super::*;

    // Only complete answers are measured, and the window has only the newest of them.
    #[test]
    fn the_window_has_the_newest_answers() {
        let one = |second, ok| Finished {
            at: Duration::from_secs(second),
            ok,
            ttft_ms: Some(second as f64 * 10.0),
            e2e_ms: 500.0,
            prompt_tokens: 100,
            cached_tokens: 25,
            ..Finished::default()
        };
        let all: Vec<Finished> = (1..=20).map(|second| one(second, second != 20)).collect();
        let now = Tallied::of(ended_after(&all, Duration::from_secs(10)));
        assert_eq!((now.answers, now.lost), (9, 1));
        assert_eq!((now.p50, now.whole, now.cached), (Some(150.0), Some(500.0), Some(0.25)));
        assert_eq!(Tallied::of(&[]), Tallied::default());
    }
}
