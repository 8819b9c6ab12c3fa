//! The emulated link over which an engine sends KV.
//!
//! A reader is served in chunks, and each chunk occupies the link for the time that the model's KV
//! would. Concurrent readers take turns by the chunk, so they share the rate about equally. The
//! receiving side is not a limit.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// The sending side of one engine.
#[derive(Debug)]
pub(super) struct Link {
    /// Wall time of one block.
    block: Duration,
    free: Mutex<Instant>,
}

impl Link {
    /// A link that sends a block in this wall time.
    pub(super) fn new(block: Duration) -> Link {
        Link { block, free: Mutex::new(Instant::now()) }
    }

    /// Wall time of `blocks` blocks alone on the link.
    pub(super) fn time(&self, blocks: usize) -> Duration {
        self.block * u32::try_from(blocks).unwrap_or(u32::MAX)
    }

    /// Waits until `blocks` more blocks have passed.
    pub(super) async fn pass(&self, blocks: usize) {
        let done = {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            *free = (*free).max(Instant::now()) + self.time(blocks);
            *free
        };
        tokio::time::sleep_until(done).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Two readers at once take as long as their blocks one after the other, and time in which the
    // link was idle is lost.
    #[tokio::test(start_paused = true)]
    async fn readers_share_the_link() {
        let link = Link::new(Duration::from_millis(10));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let start = Instant::now();
        let read = async || {
            for _ in 0..5 {
                link.pass(2).await;
            }
            start.elapsed()
        };
        let (first, second) = tokio::join!(read(), read());
        assert_eq!(first.as_millis().max(second.as_millis()), 200);
        assert_eq!(first.as_millis().min(second.as_millis()), 180);
    }
}
