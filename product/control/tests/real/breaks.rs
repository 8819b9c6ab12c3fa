//! The ways in which members break.

use std::time::Duration;

use meridian_base::Rng;
use tokio::time::sleep;

use crate::etcd::Cluster;

/// Faults of a run; more with `MERIDIAN_FAULTS`.
pub(crate) fn rounds() -> usize {
    let text = std::env::var("MERIDIAN_FAULTS").unwrap_or_else(|_| "4".to_owned());
    text.parse().unwrap_or_else(|_| panic!("MERIDIAN_FAULTS is {text:?}; give a number"))
}

/// What happens to a member.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Break {
    /// Its process is killed, and starts again with its data.
    Killed,
    /// Its process is stopped.
    Stopped,
    /// Its process runs for a fifth of the time.
    Slow,
    /// It does not reach the others, but clients reach it.
    CutOff,
    /// Nothing reaches it.
    Gone,
    /// No member reaches another, so none may answer.
    Apart,
}

/// Faults of processes.
pub(crate) const OF_PROCESSES: [Break; 3] = [Break::Killed, Break::Stopped, Break::Slow];
/// Faults of the network, and a process that is killed.
pub(crate) const OF_LINKS: [Break; 4] = [Break::CutOff, Break::Gone, Break::Apart, Break::Killed];

/// Breaks and mends one member at a time, the leader every other time.
pub(crate) async fn break_members(cluster: &mut Cluster, rng: &mut Rng, of: &[Break]) {
    for _ in 0..rounds() {
        let n = if rng.below(2) == 0 { cluster.leader() } else { rng.below(3) };
        break_one(cluster, n, of[rng.below(of.len())], rng).await;
        cluster.whole();
    }
}

async fn break_one(cluster: &mut Cluster, n: usize, what: Break, rng: &mut Rng) {
    let mut pause = async |least, more| {
        sleep(Duration::from_millis(least + rng.below(more) as u64)).await;
    };
    match what {
        Break::Killed => {
            cluster.kill(n);
            pause(500, 2000).await;
            cluster.restart(n);
        }
        Break::Stopped => {
            cluster.signal(n, "STOP");
            pause(1000, 4000).await;
            cluster.signal(n, "CONT");
        }
        Break::Slow => {
            for _ in 0..20 {
                cluster.signal(n, "STOP");
                pause(80, 1).await;
                cluster.signal(n, "CONT");
                pause(20, 1).await;
            }
        }
        Break::CutOff | Break::Gone => {
            cluster.network().cut_peers(n, true);
            let is_gone = matches!(what, Break::Gone);
            cluster.network().cut_clients(n, is_gone);
            pause(1000, 4000).await;
            cluster.network().cut_clients(n, false);
            cluster.network().cut_peers(n, false);
        }
        Break::Apart => {
            (0..3).for_each(|n| cluster.network().cut_peers(n, true));
            pause(1000, 4000).await;
            (0..3).for_each(|n| cluster.network().cut_peers(n, false));
        }
    }
}
