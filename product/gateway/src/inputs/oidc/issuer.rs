//! One issuer: its keys in force, and the schedule by which they are fetched again.
//!
//! The keys are fetched in the background, never for a request. They are fetched every few minutes,
//! and soon after a token names an unknown key, because the issuer may have exchanged its keys. If
//! the issuer does not answer, the last good keys stay in force: a token that was signed properly
//! is still as good as before.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use meridian_config as config;
use meridian_protocol::admin;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::keys::KeySet;
use crate::cause;
use crate::lock::Mutex;

/// Time between two fetches.
const REFRESH: Duration = Duration::from_secs(300);
/// Shortest time between two fetches that tokens with unknown keys cause: clients choose the key
/// ids of their tokens.
const LEAST: Duration = Duration::from_secs(30);
/// The first pause after a failure, doubled by each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Where the keys of an issuer are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) issuer: String,
    /// URL of the discovery document.
    pub(crate) discovery: String,
    /// URL of the keys, if configured.
    pub(crate) keys: Option<String>,
    pub(crate) ca: Option<PathBuf>,
}

impl Site {
    pub(crate) fn new(config: &config::Issuer) -> Site {
        Site {
            issuer: config.issuer.clone(),
            discovery: config.discovery(),
            keys: config.keys.clone(),
            ca: config.ca.clone(),
        }
    }
}

/// An issuer and its keys. It outlives reloads of the configuration.
#[derive(Debug)]
pub(crate) struct Issuer {
    pub(crate) site: Site,
    state: Mutex<IssuerState>,
    /// Wakes the task that fetches.
    wake: Arc<Notify>,
}

#[derive(Debug)]
struct IssuerState {
    /// The last good keys.
    keys: Option<Arc<KeySet>>,
    /// When they were fetched.
    good: Option<Instant>,
    /// Why the newest fetch failed.
    trouble: Option<String>,
    failures: u64,
    /// Failures since the last success.
    in_a_row: u32,
    /// When the keys are fetched next.
    due: Instant,
    /// When the newest fetch started.
    started: Option<Instant>,
    is_running: bool,
}

impl Issuer {
    /// `keys` are in force until the first fetch.
    pub(super) fn new(site: Site, wake: Arc<Notify>, keys: Option<Arc<KeySet>>) -> Issuer {
        let state = IssuerState {
            keys,
            good: None,
            trouble: None,
            failures: 0,
            in_a_row: 0,
            due: Instant::now(),
            started: None,
            is_running: false,
        };
        Issuer { site, state: Mutex::new(state), wake }
    }

    /// The keys in force; none if they could not be fetched yet.
    pub(super) fn keys(&self) -> Option<Arc<KeySet>> {
        self.state.lock().keys.clone()
    }

    /// The time until the next fetch.
    pub(super) fn wait(&self) -> Duration {
        self.state.lock().due.saturating_duration_since(Instant::now())
    }

    /// A token names a key that is not in force: the keys are fetched again soon.
    pub(super) fn misses_a_key(&self) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let soon = state.started.map_or(now, |started| now.max(started + LEAST));
        if !state.is_running && soon < state.due {
            state.due = soon;
            self.wake.notify_one();
        }
    }

    /// Fetches the keys at once.
    pub(super) fn hurry(&self) {
        self.state.lock().due = Instant::now();
        self.wake.notify_one();
    }

    /// When the keys are to be fetched next; none while they are being fetched.
    pub(super) fn due(&self) -> Option<Instant> {
        let state = self.state.lock();
        (!state.is_running).then_some(state.due)
    }

    /// A fetch starts.
    pub(super) fn begin(&self) {
        let mut state = self.state.lock();
        assert!(!state.is_running, "an issuer's keys are fetched twice at a time");
        (state.is_running, state.started) = (true, Some(Instant::now()));
    }

    /// A fetch ended with a JWKS or the reason why there is none.
    pub(super) fn end(&self, fetched: Result<impl AsRef<[u8]>, String>) {
        let before = self.keys();
        let read = fetched.and_then(|json| KeySet::read(json.as_ref(), before.as_deref()));
        let now = Instant::now();
        let mut state = self.state.lock();
        state.is_running = false;
        match read {
            Ok(keys) => {
                let is_new = before.is_none_or(|before| keys.replaces(&before));
                let was_down = state.trouble.take().is_some();
                if is_new || was_down {
                    tracing::info!(
                        issuer = self.site.issuer,
                        keys = keys.len(),
                        "issuer's keys fetched"
                    );
                }
                (state.keys, state.good) = (Some(Arc::new(keys)), Some(now));
                (state.in_a_row, state.due) = (0, now + REFRESH);
            }
            Err(why) => {
                let pause = FIRST_PAUSE * 2u32.saturating_pow(state.in_a_row.min(10));
                state.failures += 1;
                state.in_a_row = state.in_a_row.saturating_add(1);
                state.due = now + pause.min(LONGEST_PAUSE);
                let what = |why: &String| cause::undated(why);
                if state.trouble.as_ref().map(what) != Some(what(&why)) {
                    let keys = state.keys.as_ref().map_or(0, |keys| keys.len());
                    tracing::error!(
                        issuer = self.site.issuer,
                        keys,
                        error = why,
                        "cannot fetch an issuer's keys; the known ones stay"
                    );
                }
                state.trouble = Some(why);
            }
        }
    }

    pub(super) fn status(&self) -> admin::Issuer {
        let state = self.state.lock();
        admin::Issuer {
            issuer: self.site.issuer.clone(),
            keys: state.keys.as_ref().map_or(0, |keys| keys.len()),
            good_s: state.good.map(|at| at.elapsed().as_secs_f64()),
            failures: state.failures,
            trouble: state.trouble.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &str = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

    fn issuer() -> Issuer {
        let site = Site {
            issuer: "https://a.example".to_owned(),
            discovery: String::new(),
            keys: None,
            ca: None,
        };
        Issuer::new(site, Arc::default(), None)
    }

    fn fetch(issuer: &Issuer, result: Result<&str, &str>) -> Duration {
        issuer.begin();
        assert_eq!(issuer.due(), None);
        issuer.end(result.map_err(ToOwned::to_owned));
        issuer.wait()
    }

    // Failures are retried after growing pauses, up to a limit, and leave the keys in force.
    #[tokio::test(start_paused = true)]
    async fn failures_leave_the_keys() {
        let issuer = issuer();
        assert_eq!(issuer.wait(), Duration::ZERO);
        let waits: Vec<u64> = (0..8).map(|_| fetch(&issuer, Err("down")).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert!(issuer.keys().is_none());
        assert_eq!(fetch(&issuer, Ok(KEYS)), REFRESH);
        assert_eq!(fetch(&issuer, Ok("{}")), FIRST_PAUSE);
        let status = issuer.status();
        assert_eq!((status.keys, status.failures), (1, 9));
        assert!(status.trouble.is_some_and(|why| why.contains("not a JWKS")));
        assert!(issuer.keys().is_some());
    }

    // Tokens with unknown keys cause a fetch, but at most one in 30 s.
    #[tokio::test(start_paused = true)]
    async fn unknown_keys_cause_few_fetches() {
        let issuer = issuer();
        fetch(&issuer, Ok(KEYS));
        issuer.misses_a_key();
        assert_eq!(issuer.wait(), LEAST);
        tokio::time::advance(Duration::from_secs(40)).await;
        issuer.misses_a_key();
        assert_eq!(issuer.wait(), Duration::ZERO);
        fetch(&issuer, Ok(KEYS));
        tokio::time::advance(Duration::from_secs(60)).await;
        issuer.misses_a_key();
        assert_eq!(issuer.wait(), Duration::ZERO);
    }
}
