//! The service level objective of a run: limits of times, and the share of requests within them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Record, seconds};

/// Limits that a request must meet, all of those given, and the share of requests that must.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slo {
    /// Longest time to the first token.
    pub ttft: Option<Duration>,
    /// Longest time per token after the first.
    pub tpot: Option<Duration>,
    /// Longest whole request.
    pub e2e: Option<Duration>,
    /// Share of the requests that must meet the limits, above 0 and at most 1.
    pub share: f64,
}

/// The share without a given one.
const SHARE: f64 = 0.95;

/// The times of a complete answer.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// `None` without a stream.
    pub ttft: Option<Duration>,
    /// `None` with fewer than two tokens.
    pub tpot: Option<Duration>,
    pub e2e: Duration,
}

impl Slo {
    /// Whether an answer meets every limit. An answer that did not stream has its first token
    /// together with its last; one of a single token has no TPOT to miss.
    pub fn is_met(&self, times: Times) -> bool {
        let within = |limit: Option<Duration>, time: Duration| limit.is_none_or(|l| time <= l);
        within(self.ttft, times.ttft.unwrap_or(times.e2e))
            && times.tpot.is_none_or(|tpot| within(self.tpot, tpot))
            && within(self.e2e, times.e2e)
    }

    /// Whether a recorded answer meets every limit.
    #[must_use]
    pub fn is_met_by(&self, record: &Record) -> bool {
        let time = |ms: f64| Duration::from_secs_f64((ms / 1e3).max(0.0));
        record.error.is_none()
            && self.is_met(Times {
                ttft: record.ttft_ms.map(time),
                tpot: record.tpot_ms().map(time),
                e2e: time(record.e2e_ms),
            })
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, limit) in [("TTFT", self.ttft), ("TPOT", self.tpot), ("E2E", self.e2e)] {
            if let Some(limit) = limit {
                write!(f, "{name} <= {limit:?}, ")?;
            }
        }
        write!(f, "{} % of the requests", (self.share * 1e4).round() / 1e2)
    }
}

impl FromStr for Slo {
    type Err = String;

    /// Parses `ttft=500ms,tpot=50ms,share=0.95`.
    fn from_str(text: &str) -> Result<Slo, String> {
        let mut slo = Slo { ttft: None, tpot: None, e2e: None, share: SHARE };
        let names: Vec<&str> = text
            .split(',')
            .filter_map(|part| part.split_once('='))
            .map(|(name, _)| name.trim())
            .collect();
        if let Some(at) = (1..names.len()).find(|at| names[..*at].contains(&names[*at])) {
            return Err(format!("{} is there twice; give it once", names[at]));
        }
        for part in text.split(',') {
            let (name, value) = part.split_once('=').ok_or_else(|| {
                format!(
                    "`{part}` is not a limit; write ttft=500ms, tpot=50ms, e2e=10s or share=0.95"
                )
            })?;
            let slot = match name.trim() {
                "ttft" => &mut slo.ttft,
                "tpot" => &mut slo.tpot,
                "e2e" => &mut slo.e2e,
                "share" => {
                    let share = value.trim().parse().ok();
                    let good = share.filter(|share: &f64| *share > 0.0 && *share <= 1.0);
                    slo.share = good.ok_or_else(|| {
                        format!("share is `{value}`; use a number above 0 and at most 1")
                    })?;
                    continue;
                }
                other => return Err(format!("`{other}` has no limit; use ttft, tpot, e2e, share")),
            };
            *slot = Some(limit(name.trim(), value.trim())?);
        }
        if slo.ttft.or(slo.tpot).or(slo.e2e).is_none() {
            return Err("an objective needs a limit; add ttft=500ms, tpot=50ms or e2e=10s".into());
        }
        Ok(slo)
    }
}

fn limit(name: &str, text: &str) -> Result<Duration, String> {
    let limit = seconds(text).map_err(|error| format!("{name}: {error}"))?;
    match limit.is_zero() {
        true => Err(format!("{name} is {text}: no request meets it; give a time above 0")),
        false => Ok(limit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    // Limits in any order, with a default share; the words of a report name all of them.
    #[test]
    fn is_parsed() {
        let slo: Slo = "tpot=50ms, ttft=0.5s".parse().expect("a good objective");
        assert_eq!(
            (slo.ttft, slo.tpot, slo.e2e, slo.share),
            (Some(ms(500)), Some(ms(50)), None, 0.95)
        );
        let slo: Slo = "e2e=10s,share=0.999".parse().expect("a good objective");
        assert_eq!(slo.to_string(), "E2E <= 10s, 99.9 % of the requests");
    }

    // A limit that is none, or that no request could meet, is reported with the remedy.
    #[test]
    fn bad_ones_are_reported() {
        for (text, part) in [
            ("", "is not a limit"),
            ("500ms", "is not a limit"),
            ("share=0.9", "needs a limit"),
            ("ttft=1s,tpot=9ms,ttft=2s", "ttft is there twice"),
            ("ttft=500ms,share=0", "above 0 and at most 1"),
            ("ttft=500ms,share=95", "above 0 and at most 1"),
            ("ttft=500ms,share=NaN", "above 0 and at most 1"),
            ("ttft=0ms", "no request meets it"),
            ("ttft=-1s", "is not a time"),
            ("ttft=500", "has no unit"),
            ("itl=5ms", "use ttft, tpot, e2e, share"),
        ] {
            assert!(text.parse::<Slo>().is_err_and(|e| e.contains(part)), "{text}: {part}");
        }
    }

    // Every limit counts; without a stream the end is the first token, and a single token has no
    // time per token.
    #[test]
    fn every_limit_counts() {
        let slo: Slo = "ttft=100ms,tpot=10ms".parse().expect("a good objective");
        let times = |ttft, tpot, e2e| Times { ttft, tpot, e2e };
        assert!(slo.is_met(times(Some(ms(100)), Some(ms(10)), ms(900))));
        assert!(!slo.is_met(times(Some(ms(101)), Some(ms(1)), ms(900))));
        assert!(!slo.is_met(times(Some(ms(1)), Some(ms(11)), ms(900))));
        assert!(!slo.is_met(times(None, None, ms(101))));
        assert!(slo.is_met(times(Some(ms(1)), None, ms(1))));
    }
}
