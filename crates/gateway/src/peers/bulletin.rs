//! The digest that all followers get, taken from the machine once for all of them.
//!
//! Whoever hands the machine an event rings; the task looks when it was rung, at most once in
//! `push`, and at least once in `beat`. A digest that says the same as the last is only published
//! when the beat is due: followers judge a region by the age of its last news.

use std::sync::Arc;

use meridian_routing::Digest;
use meridian_wire::peer::Page;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::Peers;
use crate::machine::driver::Driver;
use crate::shared::Shared;

#[derive(Debug)]
pub(crate) struct Bulletin {
    rung: Notify,
    page: watch::Sender<Arc<Page>>,
}

impl Default for Bulletin {
    fn default() -> Bulletin {
        Bulletin { rung: Notify::new(), page: watch::Sender::new(Arc::default()) }
    }
}

impl Bulletin {
    /// Something happened in the machine.
    pub(super) fn touch(&self) {
        self.rung.notify_one();
    }

    /// The newest digest, and every later one.
    pub(super) fn follow(&self, driver: &Driver) -> watch::Receiver<Arc<Page>> {
        let digest = driver.digest();
        // The others have news when they are due.
        self.page.send_if_modified(|page| {
            *page = Arc::new(page.next(digest));
            false
        });
        self.page.subscribe()
    }
}

/// Publishes digests as long as somebody follows. A gateway that is going down has room for
/// nothing.
pub(super) async fn publish(shared: Arc<Shared>, peers: Arc<Peers>) {
    let (push, beat) = (peers.config.push.0, peers.config.beat.0);
    let bulletin = &peers.bulletin;
    let mut published = Instant::now();
    loop {
        let due = published + beat;
        let rung = timeout_at(due, bulletin.rung.notified()).await.is_ok();
        let looked = Instant::now();
        if bulletin.page.receiver_count() == 0 {
            published = looked;
            sleep_until(looked + push).await;
            continue;
        }
        let digest = match shared.is_draining() {
            false => shared.driver.digest(),
            true => Digest::default(),
        };
        if !rung || looked >= due || digest != **bulletin.page.borrow().digest() {
            bulletin.page.send_modify(|page| *page = Arc::new(page.next(digest)));
            published = looked;
        }
        sleep_until(looked + push).await;
    }
}
