//! The control planes of the configuration, and the one that this gateway uses.
//!
//! They all serve one registry, so any of them will do. All tasks use the same one, until a request
//! to it fails for a reason that says nothing about this gateway. Then the next one in the
//! configuration's order is used, after the last one the first. Several tasks may notice the same
//! failure; only the first of them moves.
//!
//! Deliberately not here: a return to the nearest one once it is back. Requests to a control plane
//! are few, and a connection that moves without need can only get worse.

use http::uri::Authority;
use meridian_config as config;
use meridian_protocol::admin;
use tokio::sync::watch;
use tokio::time::Instant;

use super::lost::Lost;
use crate::lock::Mutex;

/// The control planes of the configuration.
pub(super) struct Planes {
    urls: config::ControlUrls,
    /// In the same order.
    authorities: Vec<Authority>,
    used: watch::Sender<usize>,
    failures: Mutex<Failures>,
}

#[derive(Default)]
struct Failures {
    /// The last one of each control plane.
    last: Vec<Option<Failure>>,
    /// How often another one was used.
    moves: u64,
}

struct Failure {
    at: Instant,
    why: String,
}

impl Planes {
    /// Those of a configuration that was checked, so there is at least one.
    pub(super) fn new(urls: config::ControlUrls) -> Planes {
        let authorities = urls.authorities();
        assert!(!authorities.is_empty(), "a control section names a control plane");
        let last = authorities.iter().map(|_| None).collect();
        let failures = Mutex::new(Failures { last, moves: 0 });
        Planes { urls, authorities, used: watch::Sender::new(0), failures }
    }

    pub(super) fn count(&self) -> usize {
        self.authorities.len()
    }

    /// The one in use, by its place in the configuration.
    pub(super) fn used(&self) -> usize {
        *self.used.borrow()
    }

    pub(super) fn url(&self, at: usize) -> &str {
        &self.urls.all()[at]
    }

    pub(super) fn urls(&self) -> &config::ControlUrls {
        &self.urls
    }

    pub(super) fn authority(&self, at: usize) -> &Authority {
        &self.authorities[at]
    }

    /// Completes when another one than `from` is in use.
    pub(super) async fn moved(&self, from: usize) {
        let mut used = self.used.subscribe();
        // The sender is a field of `self`, so it lives.
        let _ = used.wait_for(|used| *used != from).await;
    }

    /// Notes that a request to the one at `at` failed, and moves to the next one if that may help.
    /// Returns whether this call moved: not if a task has moved from there already.
    pub(super) fn failed(&self, at: usize, why: &Lost) -> bool {
        assert!(at < self.count(), "control plane {at} of {} failed", self.count());
        let next = (at + 1) % self.count();
        let moves = why.is_its_own()
            && self.used.send_if_modified(|used| {
                let moves = *used == at && next != at;
                *used = if moves { next } else { *used };
                moves
            });
        let mut failures = self.failures.lock();
        failures.last[at] = Some(Failure { at: Instant::now(), why: why.to_string() });
        failures.moves += u64::from(moves);
        moves
    }

    pub(super) fn moves(&self) -> u64 {
        self.failures.lock().moves
    }

    /// The ones that are not in use, for the status page.
    pub(super) fn others(&self) -> Vec<admin::OtherControl> {
        let used = self.used();
        let failures = self.failures.lock();
        let other = |(i, url): (usize, &String)| {
            let failure = failures.last[i].as_ref();
            admin::OtherControl {
                url: url.clone(),
                problem: failure.map(|failure| failure.why.clone()),
                failed_s: failure.map(|failure| failure.at.elapsed().as_secs_f64()),
            }
        };
        self.urls.all().iter().enumerate().filter(|(i, _)| *i != used).map(other).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planes(urls: &str) -> Planes {
        let text = format!("version: 1\ncontrol: {{url: {urls}, name: us-1}}\n");
        let config = config::Gateway::read(&text).expect("is valid");
        Planes::new(config.control.expect("is there").url)
    }

    fn refusal(status: u16) -> Lost {
        Lost::Refused { status, code: String::new(), message: String::new() }
    }

    // A failure moves to the next one, and from the last one to the first. A second task that
    // notices the same failure moves no further.
    #[test]
    fn moves_once_for_each_failure() {
        let planes = planes("['http://c1:1', 'http://c2:1', 'http://c3:1']");
        assert!(planes.failed(0, &Lost::Silent));
        assert!(!planes.failed(0, &Lost::Closed));
        assert_eq!(planes.used(), 1);
        assert!(planes.failed(1, &refusal(503)));
        assert!(planes.failed(2, &Lost::Silent));
        assert_eq!((planes.used(), planes.moves()), (0, 3));
        let others: Vec<_> =
            planes.others().into_iter().map(|one| (one.url, one.problem)).collect();
        let refused = "the control plane refuses (503): ".to_owned();
        assert_eq!(
            others,
            [
                ("http://c2:1".to_owned(), Some(refused)),
                ("http://c3:1".to_owned(), Some("the control plane is silent".to_owned())),
            ]
        );
    }

    // A refusal of this gateway, and a failure of the only control plane, move nothing.
    #[test]
    fn stays_where_it_is() {
        let two = planes("['http://c1:1', 'http://c2:1']");
        for status in [400, 401, 403, 404, 409, 410, 429, 499] {
            assert!(!two.failed(0, &refusal(status)), "{status}");
        }
        for status in [301, 500, 502, 503] {
            let at = two.used();
            assert!(two.failed(at, &refusal(status)), "{status}");
        }
        let one = planes("'http://c1:1'");
        assert!(!one.failed(0, &Lost::Silent));
        assert_eq!((one.used(), one.moves(), one.others().len()), (0, 0, 0));
    }

    // A task that waits for a move learns of it, also of one that has happened already.
    #[tokio::test]
    async fn a_move_is_noticed() {
        let planes = planes("['http://c1:1', 'http://c2:1']");
        let (moved, ()) = tokio::join!(planes.moved(0), async {
            planes.failed(0, &Lost::Silent);
        });
        assert_eq!(moved, ());
        planes.moved(0).await;
    }
}
