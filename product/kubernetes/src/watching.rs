//! One watch. `kube`'s watcher continues from bookmarks, and lists again when the API server no longer has
//! its version (410).
//!
//! After any other failure it would continue, too, and while nothing changes there would be no event by
//! which its recovery shows. So a new one takes its place, which begins with a list.

use std::fmt::Debug;
use std::pin::Pin;

use kube::Api;
use kube::runtime::watcher::{self, Config, DefaultBackoff, Event, watcher};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep_until};
use tokio_stream::{Stream, StreamExt};

use crate::trouble;

/// Duration of a watch, s. Shorter than the watcher's usual one, because a connection that has silently
/// died is noticed 5 s after it.
const WATCH_S: u32 = 55;

/// A kind of object that can be watched.
pub(crate) trait Watchable:
    kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static
{
}
impl<K: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static> Watchable for K {}

pub(crate) struct Watching<K> {
    api: Api<K>,
    config: Config,
    events: Pin<Box<dyn Stream<Item = watcher::Result<Event<K>>> + Send>>,
    /// Pauses after failures: 0.8 to 30 s, as those of Kubernetes' own clients.
    pauses: DefaultBackoff,
    /// End of the current pause.
    again: Option<Instant>,
}

impl<K: Watchable> Watching<K> {
    pub(crate) fn new(api: Api<K>, selector: Option<&str>) -> Watching<K> {
        let config = Config::default().timeout(WATCH_S);
        let config = match selector {
            Some(selector) => config.labels(selector),
            None => config,
        };
        let events = Box::pin(watcher(api.clone(), config.clone()));
        Watching { api, config, events, pauses: DefaultBackoff::default(), again: None }
    }

    /// The next event. Nothing is lost if this future is dropped.
    pub(crate) async fn next(&mut self) -> watcher::Result<Event<K>> {
        loop {
            if let Some(again) = self.again {
                sleep_until(again).await;
                self.again = None;
                self.events = Box::pin(watcher(self.api.clone(), self.config.clone()));
            }
            let event = self.events.next().await;
            if event
                .as_ref()
                .is_none_or(|event| event.as_ref().is_err_and(|e| !trouble::is_gone(e)))
            {
                self.again = self.pauses.next().map(|pause| Instant::now() + pause);
            }
            if let Some(event) = event {
                return event;
            }
        }
    }
}
