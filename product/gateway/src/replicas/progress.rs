//! Whether an engine that has work makes progress.
//!
//! An engine whose scheduler hangs may still answer its health check and its metrics page. Then requests run there, but
//! no number on the page changes, and no piece of an answer comes. Such a replica gets no new requests until something
//! changes. The requests that it has are left to the timeouts: a very long prompt may look the same.
//!
//! A page that never changed tells nothing, nor does one without metrics of the engine's own.

use std::hash::{DefaultHasher, Hasher};

use meridian_base::{Duration, Time};

use crate::fault::AttemptError;
use crate::lock::Mutex;

/// Without any change for this long, and this many idle intervals of the probes, an engine that has work makes no
/// progress. The longest step of an engine, with a batch full of prompts, takes some seconds.
const HANGS: Duration = Duration::from_secs(30);
const INTERVALS: u32 = 30;

/// Pages are compared this often: a page of vLLM has a thousand lines.
const LOOK: Duration = Duration::from_secs(5);

/// What the last page said, and since when it has said that.
#[derive(Debug, Default)]
pub(crate) struct EngineProgress(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    looked: Option<Time>,
    /// The page's numbers.
    page: Option<u64>,
    has_changed: bool,
    /// The pieces of answers.
    pieces: u64,
    /// When something changed last.
    since: Time,
}

impl EngineProgress {
    /// Whether to look at the numbers of a page now.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.0.lock().looked.is_none_or(|at| now.since(at) >= LOOK)
    }

    /// Keeps the numbers of a page.
    pub(super) fn looked(&self, now: Time, page: Option<u64>) {
        let mut seen = self.0.lock();
        seen.looked = Some(now);
        if seen.page != page {
            seen.has_changed |= seen.page.is_some() && page.is_some();
            (seen.page, seen.since) = (page, now);
        }
    }

    /// For how long the engine has made no progress, if it makes none. So many pieces of answers have come; `works` says
    /// whether requests run at it, and `pace` is the idle interval.
    pub(super) fn still(
        &self,
        now: Time,
        pieces: u64,
        works: bool,
        pace: Duration,
    ) -> Option<Duration> {
        let mut seen = self.0.lock();
        if seen.pieces != pieces || !works {
            (seen.pieces, seen.since) = (pieces, now);
        }
        let still = now.since(seen.since);
        let hangs = seen.page.is_some() && still >= HANGS.max(pace * INTERVALS);
        (hangs && seen.has_changed).then_some(still)
    }
}

/// The error to show of a replica that makes no progress.
pub(super) fn none_for(still: Duration) -> AttemptError {
    let seconds = still.as_secs();
    AttemptError::replica(format!(
        "no progress for {seconds} s: requests run there, but neither its metrics nor its answers change"
    ))
}

/// A number for what the engine's own metrics say; none if there are none of them. Counts of requests are left out:
/// those change as requests arrive.
pub(super) fn numbers(page: &[u8], prefixes: &[&str]) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    let mut lines = 0_u32;
    for line in page.split(|byte| *byte == b'\n') {
        let is_own = prefixes.iter().any(|prefix| line.starts_with(prefix.as_bytes()));
        let end = line.iter().position(|byte| matches!(byte, b' ' | b'{')).unwrap_or(line.len());
        if is_own && !COUNTS.iter().any(|word| memchr::memmem::find(&line[..end], word).is_some()) {
            hasher.write(line);
            lines += 1;
        }
    }
    (lines > 0).then(|| hasher.finish())
}

/// Words in the names of metrics that count requests in the engine and before it.
const COUNTS: [&[u8]; 6] = [b"running", b"waiting", b"processing", b"deferred", b"queue", b"http"];

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_millis(seconds * 1000)
    }

    // Half a minute without any change while requests run is no progress; a change, a piece of an answer or an engine
    // without requests ends it.
    #[test]
    fn nothing_changes_for_long() {
        let progress = EngineProgress::default();
        let paced = |second, page, pieces, works, pace| {
            if progress.is_due(at(second)) {
                progress.looked(at(second), Some(page));
            }
            progress.still(at(second), pieces, works, pace).map(|still| still.as_secs())
        };
        let seen = |second, page, pieces, works| {
            paced(second, page, pieces, works, Duration::from_millis(200))
        };
        assert_eq!(seen(1, 1, 0, true), None);
        assert_eq!(seen(100, 1, 0, true), None, "it may be a page that never changes");
        assert_eq!(seen(105, 2, 0, true), None);
        assert_eq!(seen(134, 2, 0, true), None);
        assert_eq!(seen(135, 2, 0, true), Some(30));
        assert_eq!(seen(136, 2, 1, true), None, "a piece of an answer came");
        assert_eq!(seen(170, 2, 1, true), Some(34));
        assert_eq!(seen(171, 2, 1, false), None, "nothing runs");
        assert_eq!(seen(200, 2, 1, true), None);
        assert_eq!(seen(201, 2, 1, true), Some(30));
        assert_eq!(seen(204, 3, 1, true), Some(33), "not looked at yet");
        assert_eq!(seen(205, 3, 1, true), None);
        let rarely = Duration::from_secs(2);
        assert_eq!(paced(264, 3, 1, true, rarely), None);
        assert_eq!(paced(265, 3, 1, true, rarely), Some(60));
    }

    // Only numbers of the engine count, and of those not the requests in it.
    #[test]
    fn numbers_of_the_engine() {
        let of = |page: &str| numbers(page.as_bytes(), &["vllm:"]);
        let page = |tokens, running, cpu| {
            format!(
                "# HELP vllm:x y\nvllm:generation_tokens_total{{a=\"running\"}} {tokens}\n\
                 vllm:num_requests_running{{}} {running}\nprocess_cpu_seconds_total {cpu}\n"
            )
        };
        assert_eq!(of(&page(1, 2, 3)), of(&page(1, 4, 5)));
        assert_ne!(of(&page(1, 2, 3)), of(&page(6, 2, 3)));
        assert_eq!(of("process_cpu_seconds_total 1\n"), None);
    }
}
