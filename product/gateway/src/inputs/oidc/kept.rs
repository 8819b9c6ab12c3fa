//! The issuers across reloads of the configuration, and the task that fetches their keys.

use std::sync::Arc;

use meridian_config as config;
use meridian_protocol::admin;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::fetch::key_set;
use super::issuer::{Issuer, Site};
use crate::lock::Mutex;

/// The issuers in force.
#[derive(Debug, Default)]
pub(crate) struct KeptIssuers {
    now: Mutex<Vec<Arc<Issuer>>>,
    wake: Arc<Notify>,
}

impl KeptIssuers {
    /// The issuers of a configuration, in its order. Those that were there before, at the same
    /// URLs, keep their keys; others end.
    pub(crate) fn of(&self, issuers: &[config::Issuer]) -> Vec<Arc<Issuer>> {
        let mut now = self.now.lock();
        let one = |config| {
            let site = Site::new(config);
            if let Some(known) = now.iter().find(|known| known.site == site) {
                return known.clone();
            }
            // Until the first fetch from other URLs, the keys of the same issuer stay in force.
            let before = now.iter().find(|known| known.site.issuer == site.issuer);
            let keys = before.and_then(|before| before.keys());
            Arc::new(Issuer::new(site, self.wake.clone(), keys))
        };
        let all: Vec<_> = issuers.iter().map(one).collect();
        now.clone_from(&all);
        self.wake.notify_one();
        all
    }

    /// Fetches all keys at once.
    pub(crate) fn hurry(&self) {
        for issuer in self.all() {
            issuer.hurry();
        }
    }

    pub(crate) fn status(&self) -> Vec<admin::Issuer> {
        self.all().iter().map(|issuer| issuer.status()).collect()
    }

    fn all(&self) -> Vec<Arc<Issuer>> {
        self.now.lock().clone()
    }
}

/// Fetches the keys when they are due; never returns. Issuers do not wait for each other.
pub(crate) async fn keep(issuers: Arc<KeptIssuers>) {
    let mut fetches = JoinSet::new();
    loop {
        let all = issuers.all();
        let now = Instant::now();
        for issuer in all.iter().filter(|issuer| issuer.due().is_some_and(|due| due <= now)) {
            let issuer = issuer.clone();
            issuer.begin();
            fetches.spawn(async move { issuer.end(key_set(&issuer.site).await) });
        }
        let next = all.iter().filter_map(|issuer| issuer.due()).min();
        tokio::select! {
            () = async {
                match next {
                    Some(next) => sleep_until(next).await,
                    None => std::future::pending().await,
                }
            } => {}
            () = issuers.wake.notified() => {}
            Some(ended) = fetches.join_next() => ended.expect("a fetch does not panic"),
        }
    }
}
