//! What a gateway that starts gets from another one of its region: what that one has in flight, and the
//! cached prefixes and speeds of all replicas.
//!
//! A sibling that knows nothing of a replica does not answer the question about it. Answers keep the
//! order of the questions, so the echo of a heartbeat that follows all questions follows all answers.

use std::time::Duration;

use tokio::time::sleep;

use super::all::Peers;
use crate::replicas::region::Region;

/// Longest wait for a sibling that answers: more than it takes to send the prefixes of hundreds of
/// replicas.
const MOST: Duration = Duration::from_secs(10);

/// The progress on one stream.
#[derive(Debug)]
pub(super) struct Welcome {
    /// Whether what the sibling has in flight was told; an older one never tells it.
    has_requests: bool,
    /// The heartbeat that follows the questions.
    mark: Option<u64>,
    has_answers: bool,
}

impl Welcome {
    pub(super) fn new(tells_requests: bool) -> Welcome {
        Welcome { has_requests: !tells_requests, mark: None, has_answers: false }
    }

    /// A heartbeat is sent; `asked` if no question is left.
    pub(super) fn beats(&mut self, stamp: u64, asked: bool) {
        if asked {
            self.mark.get_or_insert(stamp);
        }
    }

    /// A heartbeat came back.
    pub(super) fn echoes(&mut self, stamp: u64) {
        self.has_answers |= self.mark.is_some_and(|mark| stamp >= mark);
    }

    /// Everything in flight was told.
    pub(super) fn hears_requests(&mut self) {
        self.has_requests = true;
    }

    pub(super) fn is_complete(&self) -> bool {
        self.has_requests && self.has_answers
    }
}

/// Ends the wait of a gateway that starts, if no sibling answers within `peers.gone`, or none tells
/// everything.
pub(super) async fn limit(region: &Region, peers: &Peers) {
    let gone = peers.config.gone.0.min(MOST);
    sleep(gone).await;
    let is_up = |link: &std::sync::Arc<super::link::Link>| link.sibling && link.state().is_up;
    if peers.links.all().iter().any(is_up) {
        sleep(MOST - gone).await;
    }
    if region.joining.end() {
        tracing::info!(
            "no other gateway of this region has told what it knows; ready without that"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // It takes both: the requests, and the echo of a heartbeat that was sent after all questions.
    #[test]
    fn complete_with_both() {
        let mut welcome = Welcome::new(true);
        welcome.beats(1, false);
        welcome.beats(2, true);
        welcome.beats(3, true);
        welcome.echoes(1);
        welcome.hears_requests();
        assert!(!welcome.is_complete(), "answers may be missing");
        welcome.echoes(2);
        assert!(welcome.is_complete());
        let mut of_older = Welcome::new(false);
        of_older.beats(5, true);
        assert!(!of_older.is_complete());
        of_older.echoes(5);
        assert!(of_older.is_complete());
    }
}
