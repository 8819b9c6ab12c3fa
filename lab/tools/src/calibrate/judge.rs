//! Judges whether a fit can be trusted.

use super::Point;
use crate::fit::{self, Line};

/// If the line explains less than this share of the variance, it does not describe the replica.
const LEAST_R2: f64 = 0.95;
/// A slope whose error may exceed this share is too uncertain.
const MOST_OFF: f64 = 0.2;
/// How much steeper the upper half may be than the lower: attention grows with the square.
const MOST_BENT: f64 = 1.3;
/// Points needed in each half for a slope.
const LEAST_HALF: usize = 6;

/// Adds warnings about the line through `points`.
pub(super) fn judge(points: &[Point], line: &Line, warnings: &mut Vec<String>) {
    let (low, high) = line.slope_interval();
    let off = (high - low) / 2.0 / line.slope;
    if line.slope <= 0.0 || low <= 0.0 {
        warnings.push(
            "TTFT does not grow with the prompt, so something else dominates it: use longer prompts"
                .to_owned(),
        );
    } else if off > MOST_OFF {
        warnings.push(format!(
            "the slope may be off by {:.0} %: use more rounds, or longer prompts",
            off * 100.0
        ));
    }
    if line.r2 < LEAST_R2 {
        warnings.push(format!(
            "R2 is {:.3}: a line describes this replica poorly; does it serve other requests?",
            line.r2
        ));
    }
    let busy = points.iter().filter(|p| p.busy).count();
    if busy > 0 {
        warnings.push(format!(
            "the replica had other requests before {busy} of {} prompts: calibrate an idle one",
            points.len()
        ));
    }
    let cached = points.iter().filter(|p| p.cached > p.tokens / 10).count();
    if cached > 0 {
        warnings.push(format!(
            "{cached} prompts were partly cached, and only their other tokens count: use another \
             seed"
        ));
    }
    if let Some(bent) = bent(points).filter(|bent| *bent > MOST_BENT) {
        warnings.push(format!(
            "a token of a long prompt costs {bent:.1} times as much as one of a short prompt: \
             measure the lengths that you serve"
        ));
    }
}

/// How much steeper the upper half of the lengths is than the lower.
fn bent(points: &[Point]) -> Option<f64> {
    let mut sorted: Vec<_> = points.iter().map(|p| (p.tokens as f64, p.ttft_ms)).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (lower, upper) = sorted.split_at(sorted.len() / 2);
    if lower.len() < LEAST_HALF {
        return None;
    }
    let (lower, upper) = (fit::line(lower)?, fit::line(upper)?);
    (lower.slope > 0.0).then_some(upper.slope / lower.slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(ttft_ms: impl Fn(f64) -> f64) -> Vec<Point> {
        let at = |n: u64| {
            let tokens = 250 * n;
            Point { tokens, cached: 0, ttft_ms: ttft_ms(tokens as f64), busy: false }
        };
        (1..=24).map(at).collect()
    }

    fn warnings(points: &[Point]) -> String {
        let measured: Vec<_> = points.iter().map(|p| (p.tokens as f64, p.ttft_ms)).collect();
        let mut warnings = Vec::new();
        judge(points, &fit::line(&measured).expect("is a line"), &mut warnings);
        warnings.join("; ")
    }

    // A line with a little noise is good; every kind of bad fit is reported.
    #[test]
    fn judged() {
        let noise = |x: f64| 3.0 * libm::sin(x * 12.9898);
        let good = points(|x| 150.0 + 0.09 * x + noise(x));
        assert_eq!(warnings(&good), "");
        let flat = warnings(&points(|x| 150.0 + noise(x)));
        assert!(flat.contains("does not grow"), "{flat}");
        let loud = warnings(&points(|x| 150.0 + 0.09 * x + 60.0 * noise(x)));
        assert!(loud.contains("may be off by") && loud.contains("R2 is"), "{loud}");
        let square = warnings(&points(|x| 0.01 * x + 0.00003 * x * x));
        assert!(square.contains("times as much as one of a short prompt"), "{square}");
        let mut others = good.clone();
        (others[0].busy, others[1].cached) = (true, 200);
        let others = warnings(&others);
        assert!(
            others.contains("1 of 24 prompts") && others.contains("1 prompts were partly"),
            "{others}"
        );
    }
}
