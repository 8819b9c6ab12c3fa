//! Limits how often one cause is logged: at once the first time, then once a minute, or once a
//! second where a client decides how often it happens, with the number of omitted lines.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::lock::Mutex;

/// The usual interval between two log lines about one cause.
const PAUSE: Duration = Duration::from_secs(60);
/// The interval where a flood should be seen while it lasts.
const SECOND: Duration = Duration::from_secs(1);
/// Causes with log lines of their own; further ones share the empty name.
const MOST: usize = 64;

/// Time of the last log line, by cause; the empty name stands for all others.
pub(crate) struct Rarely {
    pause: Duration,
    logged: Mutex<BTreeMap<String, Logged>>,
}

impl Default for Rarely {
    fn default() -> Rarely {
        Rarely { pause: PAUSE, logged: Mutex::default() }
    }
}

struct Logged {
    at: Instant,
    since: u64,
}

impl Rarely {
    /// One line a second for each cause.
    pub(crate) fn each_second() -> Rarely {
        Rarely { pause: SECOND, ..Rarely::default() }
    }

    /// Whether to log a cause now, and how many earlier ones were not logged.
    pub(crate) fn due(&self, cause: &str) -> Option<u64> {
        let now = Instant::now();
        let mut logged = self.logged.lock();
        logged.retain(|_, logged| now - logged.at < 10 * self.pause);
        let cause = if logged.len() < MOST || logged.contains_key(cause) { cause } else { "" };
        match logged.get_mut(cause) {
            Some(logged) if now - logged.at < self.pause => {
                logged.since += 1;
                None
            }
            Some(logged) => {
                logged.at = now;
                Some(std::mem::take(&mut logged.since))
            }
            None => {
                logged.insert(cause.to_owned(), Logged { at: now, since: 0 });
                assert!(logged.len() <= MOST + 1, "many causes have log lines of their own");
                Some(0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // One line per minute for each cause and one for all unnamed ones, with the number of omitted
    // ones; many different causes stay within the limit.
    #[tokio::test(start_paused = true)]
    async fn a_cause_is_logged_once_a_minute() {
        let rarely = Rarely::default();
        assert_eq!(rarely.due("eu/eu-1"), Some(0));
        assert_eq!(rarely.due("eu/eu-1"), None);
        assert_eq!((rarely.due("uk/uk-1"), rarely.due("")), (Some(0), Some(0)));
        tokio::time::sleep(PAUSE).await;
        assert_eq!(rarely.due("eu/eu-1"), Some(1));
        for n in 0..10 * MOST {
            let _ = rarely.due(&format!("eu/g{n}"));
        }
        assert!(rarely.logged.lock().len() <= MOST + 1);
    }
}
