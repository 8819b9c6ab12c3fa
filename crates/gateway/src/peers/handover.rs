//! What a gateway knows of a replica, for another that is given it.
//!
//! A gateway that was given a replica (at its start, by adoption, by getting it back) asks all its
//! peers over the streams on which they tell of themselves. Who has the replica answers with what it
//! is thought to hold and how fast it is; and who has let it go within the last minute too, for one
//! that is handed back may be gone there before the other side asks. Large answers are told in
//! parts, so that heartbeats need not wait behind them.
//!
//! Only peers whose prefix hashes compare take it in.

use std::collections::VecDeque;
use std::time::Duration;

use http::uri::Authority;
use meridian_routing::{Holdings, Input};
use meridian_wire::peer::{Identity, Tell, parts};
use tokio::time::Instant;

use crate::lock::{Mutex, MutexGuard};
use crate::shared::Shared;

/// For so long it is remembered what a replica held that has left.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Blocks that are remembered of all of them together: 4 MB.
const MOST_REMEMBERED: usize = 1 << 19;

/// What replicas held that have left.
#[derive(Debug, Default)]
pub(super) struct Handover(Mutex<VecDeque<Kept>>);

#[derive(Debug)]
struct Kept {
    at: Instant,
    replica: Authority,
    holdings: Holdings,
}

impl Handover {
    fn kept(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        let mut kept = self.0.lock();
        while kept.front().is_some_and(|kept| kept.at.elapsed() > REMEMBERED) {
            kept.pop_front();
        }
        kept
    }

    /// Remembers a replica that leaves; beyond the bound the oldest are forgotten.
    pub(super) fn keep(&self, replica: &Authority, holdings: Holdings) {
        let mut kept = self.kept();
        kept.retain(|kept| kept.replica != *replica);
        kept.push_back(Kept { at: Instant::now(), replica: replica.clone(), holdings });
        let mut blocks: usize = kept.iter().map(|kept| kept.holdings.blocks()).sum();
        while blocks > MOST_REMEMBERED
            && let Some(oldest) = kept.pop_front()
        {
            blocks -= oldest.holdings.blocks();
        }
    }

    /// What is known of the replica with this host and port, in messages; none where nothing is.
    pub(super) fn tell(&self, shared: &Shared, replica: &str) -> Vec<Tell> {
        let there = shared.fleet.at(replica).map(|member| shared.driver.holdings(member.id));
        let left = || {
            let kept = self.kept();
            kept.iter().find(|kept| kept.replica == replica).map(|kept| kept.holdings.clone())
        };
        let known = there.filter(|holdings| !holdings.is_empty()).or_else(left);
        let parts = known.map_or_else(Vec::new, |holdings| parts(&holdings));
        parts.into_iter().map(|part| Tell::Holdings(replica.to_owned(), part)).collect()
    }
}

/// Takes in what a peer knows of a replica that is here.
pub(super) fn take(shared: &Shared, from: &Identity, replica: &str, holdings: Holdings) {
    let Some(member) = shared.fleet.at(replica) else { return };
    tracing::debug!(
        replica = %member.name, peer = %from, blocks = holdings.blocks(),
        ms_per_token = holdings.ms_per_token, "a peer tells what a replica holds"
    );
    let there = || !member.gone.is_cancelled();
    shared.driver.tell_if(there, Input::Inherited { id: member.id, holdings });
}
