//! Follows the registry while this control plane leads.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep, timeout_at};

use super::super::Shared;
use super::aws::Aws;
use super::fleet::fleet;
use super::reconcile::{Next, Reconciler};
use super::state::Route53;
use crate::route53::Fleet;

/// How often it looks whether it leads.
const LOOK: Duration = Duration::from_secs(1);
/// The same during requests.
const CLOSE_LOOK: Duration = Duration::from_millis(100);
/// A fleet that did not change for this long is settled: gateways often come and go together.
const QUIET: Duration = Duration::from_secs(1);
/// Longest wait for that.
const SETTLED: Duration = Duration::from_secs(5);
/// The zone is read again after this time, to restore records that were changed by hand.
const AGAIN: Duration = Duration::from_secs(300);
/// The same for a new leader: a request of the earlier one may have been under way.
const FIRST: Duration = Duration::from_secs(90);
/// Until unused health checks are looked at again.
const SOON: Duration = Duration::from_secs(5);
/// Pauses after failures: the first and the longest.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// Keeps the records; never returns.
pub(in super::super) async fn keep(shared: Arc<Shared>) {
    let Some(route53) = &shared.route53 else { return };
    let mut changes = shared.changes.subscribe();
    // Without the registry nothing is known of the fleet. The sender is in `shared`.
    let _ = changes.wait_for(|count| *count > 0).await;
    let aws = Aws::new(route53.names.clone()).await;
    loop {
        while !shared.leads() {
            sleep(LOOK).await;
        }
        lead(&shared, route53, &aws, &mut changes).await;
        route53.stopped_leading();
    }
}

/// Works until another control plane leads.
async fn lead(shared: &Shared, route53: &Route53, aws: &Aws, changes: &mut Receiver<u64>) {
    let mut reconciler = Reconciler::new(shared, route53, aws);
    let (since, mut pause) = (Instant::now(), PAUSES[0]);
    while shared.leads() {
        let fleet = settled(shared, route53, changes).await;
        let round = tokio::select! {
            round = reconciler.round(&fleet) => round,
            // A request is not repeated by one that no longer leads.
            () = lost(shared) => return,
        };
        let wait = match round {
            Ok(Next::Done) if since.elapsed() < FIRST => FIRST,
            Ok(Next::Done) => AGAIN,
            Ok(Next::Soon) => SOON,
            Ok(Next::Now) => continue,
            Ok(Next::Lost) => return,
            Err(failure) => {
                route53.failed(&failure);
                other(shared, route53, changes, &fleet, pause).await;
                pause = (pause * 2).min(PAUSES[1]);
                continue;
            }
        };
        pause = PAUSES[0];
        other(shared, route53, changes, &fleet, wait).await;
    }
}

/// Waits until this control plane no longer leads.
async fn lost(shared: &Shared) {
    while shared.leads() {
        sleep(CLOSE_LOOK).await;
    }
}

/// The fleet, once it no longer changes.
async fn settled(shared: &Shared, route53: &Route53, changes: &mut Receiver<u64>) -> Fleet {
    let end = Instant::now() + SETTLED;
    let mut now = current(shared, route53);
    while other(shared, route53, changes, &now, QUIET).await && Instant::now() < end {
        now = current(shared, route53);
    }
    current(shared, route53)
}

/// Waits until the fleet differs from `from`, for `wait` at most, or until another control plane leads.
/// Returns whether it differs.
async fn other(
    shared: &Shared,
    route53: &Route53,
    changes: &mut Receiver<u64>,
    from: &Fleet,
    wait: Duration,
) -> bool {
    let end = Instant::now() + wait;
    while shared.leads() && Instant::now() < end {
        if current(shared, route53) != *from {
            return true;
        }
        // Either a change, or the time to look again.
        let _ = timeout_at(end.min(Instant::now() + LOOK), changes.changed()).await;
    }
    false
}

fn current(shared: &Shared, route53: &Route53) -> Fleet {
    let observed = shared.observed();
    let (fleet, problems) = fleet(&route53.names.config, observed.view(), observed.left());
    drop(observed);
    route53.left_out(problems);
    fleet
}
