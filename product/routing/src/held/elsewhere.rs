//! The turns of requests that siblings hold, among those held here.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;
use meridian_base::{ModelId, Priority, SiblingLine, SiblingRequest, Time};

use super::Held;
use crate::request::Request;

impl Held {
    /// What siblings are to know of the queue, at most `most` lines: those with the oldest requests of the
    /// highest classes.
    pub(crate) fn lines(&self, now: Time, most: usize) -> Vec<SiblingLine> {
        let mut lines: BTreeMap<(Priority, u64, ModelId), (Time, u32)> = BTreeMap::new();
        for priority in Priority::ALL {
            for (tenant, entry) in self.classes[priority as usize].by_tenant() {
                let line = lines.entry((priority, tenant, entry.model)).or_insert((entry.since, 0));
                *line = (line.0.min(entry.since), line.1 + 1);
            }
        }
        let mut lines: Vec<_> = lines.into_iter().collect();
        lines.sort_unstable_by_key(|((priority, ..), (since, _))| (Reverse(*priority), *since));
        lines.truncate(most);
        let line = |((priority, tenant, model), (since, held))| {
            let waited_ms = now.since(since).as_secs_f32() * 1e3;
            SiblingLine { priority, tenant, model, held, waited_ms }
        };
        lines.into_iter().map(line).collect()
    }

    /// Sets the tenants of which siblings hold requests of a class.
    pub(crate) fn set_elsewhere(&mut self, priority: Priority, tenants: &BTreeSet<u64>) {
        self.classes[priority as usize].set_elsewhere(tenants);
    }

    /// A sibling sent a request to a replica.
    pub(crate) fn served_elsewhere(&mut self, now: Time, sent: &SiblingRequest) {
        let tokens = sent.prompt_tokens as u32;
        self.classes[sent.priority as usize].served_elsewhere(sent.tenant, tokens.max(1).into());
        self.sessions.charge(now, sent.tenant, sent.session, tokens);
    }

    /// A sibling's request was answered.
    pub(crate) fn answered_elsewhere(&mut self, now: Time, sent: &SiblingRequest) {
        self.sessions.charge(now, sent.tenant, sent.session, sent.reply_tokens as u32);
    }

    /// Whether the turn of a sibling's line comes before that of a request that arrived at `arrived`. One
    /// with a deadline goes before others of its class.
    pub(crate) fn goes_before(
        &self,
        (line, since): (&SiblingLine, Time),
        request: &Request,
        arrived: Time,
    ) -> bool {
        if line.model != request.model || line.priority < request.priority {
            return false;
        }
        line.priority > request.priority
            || request.deadline.is_none()
                && self.classes[request.priority as usize].goes_before(
                    (line, since),
                    request,
                    arrived,
                )
    }
}
