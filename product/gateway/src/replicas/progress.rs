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

/// What the last page said, and since when it has said that.
#[derive(Debug, Default)]
pub(crate) struct EngineProgress(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// The page's numbers, and the pieces of answers.
    last: Option<(u64, u64)>,
    since: Time,
    has_changed: bool,
}

impl EngineProgress {
    /// A page arrived at `now`, and that many pieces of answers until then. `works` says whether requests run at the
    /// engine, and `pace` is the idle interval. Returns for how long it has made no progress, if it makes none.
    pub(super) fn seen(
        &self,
        now: Time,
        page: Option<u64>,
        pieces: u64,
        works: bool,
        pace: Duration,
    ) -> Option<Duration> {
        let mut seen = self.0.lock();
        let this = page.map(|page| (page, pieces));
        if this != seen.last || !works {
            let old = std::mem::replace(&mut seen.last, this);
            seen.has_changed |=
                matches!((old, this), (Some((old, _)), Some((new, _))) if old != new);
            seen.since = now;
        }
        let still = now.since(seen.since);
        let hangs = still >= HANGS.max(pace * INTERVALS);
        (seen.has_changed && this.is_some() && hangs).then_some(still)
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
        let seen = |second, page, pieces, works| {
            let pace = Duration::from_millis(200);
            progress.seen(at(second), Some(page), pieces, works, pace).map(|still| still.as_secs())
        };
        assert_eq!(seen(0, 1, 0, true), None);
        assert_eq!(seen(100, 1, 0, true), None, "it may be a page that never changes");
        assert_eq!(seen(101, 2, 0, true), None);
        assert_eq!(seen(130, 2, 0, true), None);
        assert_eq!(seen(131, 2, 0, true), Some(30));
        assert_eq!(seen(132, 2, 1, true), None, "a piece of an answer came");
        assert_eq!(seen(170, 2, 1, true), Some(38));
        assert_eq!(seen(171, 2, 1, false), None, "nothing runs");
        assert_eq!(seen(200, 2, 1, true), None);
        assert_eq!(seen(201, 2, 1, true), Some(30));
        assert_eq!(seen(202, 3, 1, true), None);
        let rarely = Duration::from_secs(2);
        assert_eq!(progress.seen(at(261), Some(3), 1, true, rarely), None);
        assert_eq!(progress.seen(at(262), Some(3), 1, true, rarely), Some(2 * HANGS));
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
