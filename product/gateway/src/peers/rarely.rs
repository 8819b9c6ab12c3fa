//! Limits how often one cause is logged: at once the first time, then once a minute with the number
//! of omitted lines.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::lock::Mutex;

/// Interval between two log lines about one cause.
const PAUSE: Duration = Duration::from_secs(60);
/// Causes with log lines of their own; further ones share the empty name.
const MOST: usize = 64;

/// Time of the last log line, by cause; the empty name stands for all others.
#[derive(Default)]
pub(super) struct Rarely(Mutex<BTreeMap<String, Logged>>);

struct Logged {
    at: Instant,
    since: u64,
}

impl Rarely {
    /// Whether to log a cause now, and how many earlier ones were not logged.
    pub(super) fn due(&self, cause: &str) -> Option<u64> {
        let now = Instant::now();
        let mut logged = self.0.lock();
        logged.retain(|_, logged| now - logged.at < 10 * PAUSE);
        let cause = if logged.len() < MOST || logged.contains_key(cause) { cause } else { "" };
        match logged.get_mut(cause) {
            Some(logged) if now - logged.at < PAUSE => {
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
        assert!(rarely.0.lock().len() <= MOST + 1);
    }
}
