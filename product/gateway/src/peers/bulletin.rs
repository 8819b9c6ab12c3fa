//! The digest that all followers get, read from the machine once for all of them.
//!
//! Each event of the machine marks the outbox. The task reads the state after such a mark, at most
//! once per `push`, and at least once per `beat`. An unchanged digest is only published when the
//! beat is due: followers judge a region by the age of its last news.

use std::sync::Arc;
use std::time::Duration;

use meridian_protocol::peer::Page;
use meridian_routing::Digest;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::draining::Draining;
use crate::machine::driver::Driver;
use crate::machine::outbox::Outbox;

#[derive(Debug)]
pub(crate) struct Bulletin {
    page: watch::Sender<Arc<Page>>,
}

impl Default for Bulletin {
    fn default() -> Bulletin {
        Bulletin { page: watch::Sender::new(Arc::default()) }
    }
}

impl Bulletin {
    /// A stream of the newest digest and all later ones.
    pub(super) fn follow(&self, driver: &Driver) -> watch::Receiver<Arc<Page>> {
        let digest = driver.digest();
        // The other followers get news when they are due.
        self.page.send_if_modified(|page| {
            *page = Arc::new(page.next(digest));
            false
        });
        self.page.subscribe()
    }

    /// Publishes digests as long as there are followers. A draining gateway reports no free
    /// capacity.
    pub(super) async fn publish(
        &self,
        outbox: &Outbox,
        (push, beat): (Duration, Duration),
        driver: &Driver,
        draining: &Draining,
    ) {
        let mut published = Instant::now();
        loop {
            let due = published + beat;
            let rung = timeout_at(due, outbox.changed()).await.is_ok();
            let looked = Instant::now();
            if self.page.receiver_count() == 0 {
                published = looked;
                sleep_until(looked + push).await;
                continue;
            }
            let digest = match draining.has_started() {
                false => driver.digest(),
                true => Digest::default(),
            };
            if !rung || looked >= due || digest != **self.page.borrow().digest() {
                self.page.send_modify(|page| *page = Arc::new(page.next(digest)));
                published = looked;
            }
            sleep_until(looked + push).await;
        }
    }
}
