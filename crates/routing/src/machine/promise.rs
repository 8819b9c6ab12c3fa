//! Whoever waited longest is promised the next room of a full replica.
//!
//! Under KV fit a short prompt fits where a long one does not, so in a full region the short ones
//! pass the long ones for as long as they come. Past patience the oldest is therefore sent to the
//! full replica that scores best and waits in its engine, which starts it as soon as there is room;
//! until its first token the replica takes nothing else. One such promise a replica.
//!
//! In an overloaded region this costs requests a second: room stands empty while it is gathered,
//! and fewer long prompts are served than short ones would be (docs/experiments.md,
//! meridian-ablation). Without it the longest prompts wait for minutes, or are refused.

use meridian_base::{ReplicaId, Time};

use super::Routing;
use crate::active::Active;
use crate::admission::Admission;
use crate::decide::Choice;
use crate::policy::Pick;
use crate::why::Why;

impl Routing {
    /// Makes one promise; false when nobody waited long enough, or no replica is left to promise.
    pub(super) fn promise(&mut self, now: Time) -> bool {
        // The other modes do not ask how long a prompt is.
        if self.config.admission != Admission::PendingKv {
            return false;
        }
        let Some(id) = self.held.impatient(now) else { return false };
        let Some(mut active) = self.actives.take(id) else { return false };
        let kept_for = self.pick_full(now, &active);
        if let Some(replica) = kept_for {
            self.held.release(id, active.request.tenant);
            let waited = now.since(active.arrived);
            self.dispatch(now, &mut active, replica, Why::Promised { waited });
            self.replicas.update(now, replica, |r| r.promised = Some(id));
        }
        self.actives.insert(active);
        kept_for.is_some()
    }

    /// The best of the replicas that take requests and have no room for this one.
    fn pick_full(&mut self, now: Time, active: &Active) -> Option<ReplicaId> {
        let promisable = |id: &ReplicaId| self.replicas.row(*id).closed.is_none();
        if !self.serves.get(&active.request.model)?.iter().any(promisable) {
            return None;
        }
        self.write_dispatch();
        let mut scratch = core::mem::take(&mut self.scratch);
        self.match_prefix(active, &mut scratch);
        let sorted = self.sort_out(active, &mut scratch);
        let pick = (sorted == Err(Choice::Hold) && scratch.offer_full(&self.replicas))
            .then(|| self.ask(now, active, &scratch));
        self.scratch = scratch;
        match pick {
            Some(Pick::Replica(id, _)) => Some(id),
            Some(Pick::Wait) | None => None,
        }
    }
}
