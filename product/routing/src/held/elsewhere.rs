//! The turns of requests that siblings hold, among those held here.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;
use meridian_base::{Duration, ModelId, Priority, RequestId, SiblingLine, SiblingRequest, Time};

use super::Held;
use super::class::Class;
use crate::request::Request;

/// The slack of turns, as a part of a second: several times as long as a record takes.
const SLACKS: u32 = 10;

/// When a request arrived, and which it is.
type Age = (Time, RequestId);

impl Held {
    /// What siblings are to know of the queue, at most `most` lines: those with the oldest requests of the
    /// highest classes. Lines of models without a replica come last: none can be served now, and a
    /// replica that comes is known to some gateways first.
    pub(crate) fn lines(&self, now: Time, most: usize) -> Vec<SiblingLine> {
        let mut lines = lines_of(&self.classes, now, most);
        lines.extend(lines_of(&self.absent, now, most - lines.len()));
        lines
    }

    /// Sets the tenants of which siblings hold requests of a class.
    pub(crate) fn set_elsewhere(&mut self, priority: Priority, tenants: &BTreeSet<u64>) {
        self.classes[priority as usize].set_elsewhere(tenants);
    }

    /// A sibling sent a request to a replica. How long its reply is, siblings do not tell.
    pub(crate) fn served_elsewhere(&mut self, now: Time, sent: &SiblingRequest) {
        let tokens = sent.prompt_tokens as u32;
        self.pace.add(now, tokens);
        self.classes[sent.priority as usize].served_elsewhere(sent.tenant, tokens.max(1).into());
        let all = tokens.saturating_add(sent.reply_tokens as u32);
        self.sessions.charge(now, sent.tenant, sent.session, all);
    }

    /// Notes whether a held request waits by choice.
    pub(crate) fn note_choice(&mut self, request: &Request, by_choice: bool) {
        self.classes[request.priority as usize].note_choice(request, by_choice);
    }

    /// Whether the turn of a sibling's line comes before that of a request that arrived at `arrived`. One
    /// with a deadline goes before others of its class.
    ///
    /// Turns within a class have some slack: what is served in that time, and arrives in it, needs no
    /// order. Without slack gateways would take turns with single requests, and send no more of them than
    /// records can follow.
    pub(crate) fn goes_before(
        &self,
        (line, since): (&SiblingLine, Time),
        request: &Request,
        arrived: Time,
    ) -> bool {
        if line.model != request.model || line.priority < request.priority {
            return false;
        }
        if line.priority > request.priority {
            return true;
        }
        let class = &self.classes[request.priority as usize];
        let more = class.served_more(request.tenant, line.tenant);
        let slack = i64::try_from(self.pace.in_a_second() / u64::from(SLACKS)).unwrap_or(i64::MAX);
        request.deadline.is_none()
            && (more > slack || more >= -slack && since + Duration::from_secs(1) / SLACKS < arrived)
    }
}

fn lines_of(classes: &[Class; 3], now: Time, most: usize) -> Vec<SiblingLine> {
    let mut lines: BTreeMap<(Priority, u64, ModelId), (Age, u32)> = BTreeMap::new();
    for priority in Priority::ALL {
        let waiting = classes[priority as usize].by_tenant();
        for (tenant, entry) in waiting.filter(|(_, entry)| !entry.by_choice) {
            let age = (entry.since, entry.id);
            let line = lines.entry((priority, tenant, entry.model)).or_insert((age, 0));
            *line = (line.0.min(age), line.1 + 1);
        }
    }
    let mut lines: Vec<_> = lines.into_iter().collect();
    lines.sort_unstable_by_key(|((priority, ..), (oldest, _))| (Reverse(*priority), *oldest));
    lines.truncate(most);
    let line = |((priority, tenant, model), ((since, oldest), held))| {
        let waited_ms = now.since(since).as_secs_f32() * 1e3;
        SiblingLine { priority, tenant, model, held, oldest, waited_ms }
    };
    lines.into_iter().map(line).collect()
}
