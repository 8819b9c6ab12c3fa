//! The data of the page on the admin port: the state now, and the last hour of it.
//!
//! A task samples the gateway's counters once a second. The state for pages is made once a second
//! for all of them together, and only while one is open.

mod health;
mod history;
mod latency;
mod saved;
mod stream;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use meridian_protocol::admin::{PageState, Snapshot};
use tokio::sync::{Semaphore, watch};
use tokio::time::MissedTickBehavior;

use self::history::{History, STEP_S, Sample, Totals};
use self::saved::Sums;
pub(crate) use self::stream::{Events, events};
use super::explain::Explain;
use super::status::StatusPage;
use crate::lock::Mutex;
use crate::machine::driver::Inner;

/// Interval between two samples, and between two events of a stream.
const SECOND: Duration = Duration::from_secs(1);
/// Most decisions compared with their alternatives in a second. It bounds the time that the machine
/// is locked for that.
const COMPARED: u64 = 256;
/// Decisions on the page.
const DECISIONS: usize = 12;
/// Most open pages.
const PAGES: usize = 32;

/// Makes the state for pages.
pub(crate) struct Feed {
    build: String,
    status: Arc<StatusPage>,
    explain: Arc<Explain>,
    history: Mutex<History>,
    state: watch::Sender<Arc<PageState>>,
    places: Arc<Semaphore>,
}

/// What has been sampled already.
#[derive(Default)]
struct Seen {
    ttft: u64,
    decided: u64,
}

impl Feed {
    pub(crate) fn new(build: String, status: Arc<StatusPage>, explain: Arc<Explain>) -> Feed {
        let start = status.region.driver.clock.now().as_secs_f64();
        Feed {
            build,
            status,
            explain,
            history: Mutex::new(History::start(start, wall().as_secs())),
            state: watch::Sender::new(Arc::default()),
            places: Arc::new(Semaphore::new(PAGES)),
        }
    }

    /// Samples once a second; never returns.
    pub(crate) async fn run(&self) {
        let (mut seen, mut ticks) = (Seen::default(), tokio::time::interval(SECOND));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let sample = sample(&self.status.region.driver.lock(), &mut seen);
            let now = self.status.region.driver.clock.now().as_secs_f64();
            self.history.lock().add(now, wall().as_secs(), &sample);
            if self.state.receiver_count() > 0 {
                self.state.send_replace(Arc::new(self.now()));
            }
        }
    }

    /// The state now, and the points from `since` on.
    pub(crate) fn snapshot(&self, since: u64) -> Snapshot {
        let state = self.now();
        Snapshot { state, points: self.history.lock().points(since) }
    }

    fn now(&self) -> PageState {
        let (status, decisions) = (self.status.read(), self.explain.newest(DECISIONS));
        let (recent, saved) = {
            let history = self.history.lock();
            (history.recent(), history.saved())
        };
        let now_s = wall().as_secs_f64();
        PageState {
            build: self.build.clone(),
            now_s,
            step_s: STEP_S,
            health: health::health(&status, &recent, now_s),
            recent,
            saved,
            decisions,
            status,
        }
    }
}

fn sample(inner: &Inner, seen: &mut Seen) -> Sample {
    let routing = &inner.routing;
    let (decided, requests, prefix) = (routing.decided(), inner.requests, inner.prefix);
    assert!(seen.decided <= decided, "{} decisions were seen of {decided}", seen.decided);
    let fresh = (decided - seen.decided).min(COMPARED) as usize;
    let mut sums = Sums::of(decided - seen.decided);
    routing.decisions().take(fresh).for_each(|decision| sums.add(decision));
    let ttft_ms = inner.ttft.since(seen.ttft);
    *seen = Seen { ttft: inner.ttft.count(), decided };
    Sample {
        totals: Totals {
            requests: requests.accepted,
            errors: requests.failed + requests.rejected,
            prompt_tokens: prefix.known_prompt_tokens,
            cached_tokens: prefix.cached_tokens,
            output_tokens: inner.output_tokens,
        },
        held: routing.held_len(),
        kv_used: kv_used(inner),
        ttft_ms,
        sums,
    }
}

/// Mean share of KV in use over the replicas that take requests.
fn kv_used(inner: &Inner) -> Option<f32> {
    let table = inner.routing.replicas();
    let open = table.ids().iter().map(|id| table.row(*id)).filter(|row| row.closed.is_none());
    let (sum, count) = open.fold((0.0, 0_u32), |(sum, n), row| (sum + row.kv_used, n + 1));
    (count > 0).then(|| sum / count as f32)
}

/// The time since 1970.
#[expect(
    clippy::disallowed_methods,
    reason = "a date for people; intervals use the driver's clock"
)]
fn wall() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
