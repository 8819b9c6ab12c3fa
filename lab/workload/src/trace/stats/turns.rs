//! Statistics of requests that continue a conversation, by session or by prefix.

use std::collections::{BTreeMap, HashMap};

use meridian_base::Time;

use super::{Extensions, lengths};
use crate::trace::TraceRequest;
use crate::trace::tally::Tally;

/// Turns of conversations.
#[derive(Default)]
pub(super) struct Turns {
    /// Time and turn of every request, for requests that extend it.
    requests: Vec<(Time, u32)>,
    /// The last request of each session.
    sessions: HashMap<u64, u64>,
    gaps: Tally,
    new_tokens: Tally,
    by_turn: BTreeMap<u32, u64>,
}

impl Turns {
    pub(super) fn requests(&self) -> u64 {
        self.requests.len() as u64
    }

    pub(super) fn add(&mut self, request: &TraceRequest, owner: Option<u64>, new_tokens: u32) {
        let number = self.requests();
        let before = match request.session {
            Some(session) => self.sessions.insert(session, number),
            None => owner,
        };
        let before = before.and_then(|before| self.requests.get(usize::try_from(before).ok()?));
        let turn = before.map_or(1, |(_, turn)| turn.saturating_add(1));
        if let Some(&(at, _)) = before {
            self.gaps.add(u64::try_from(request.at.since(at).as_nanos()).unwrap_or(u64::MAX));
            self.new_tokens.add(u64::from(new_tokens));
        }
        *self.by_turn.entry(turn).or_default() += 1;
        self.requests.push((request.at, turn));
    }

    pub(super) fn finish(self, blocks: bool) -> Option<Extensions> {
        let known = blocks || !self.sessions.is_empty();
        known.then(|| Extensions {
            share: self.gaps.len() as f64 / self.requests.len().max(1) as f64,
            gap_s: lengths(&self.gaps, 1e9),
            new_tokens: lengths(&self.new_tokens, 1.0),
            // Every turn has a predecessor, so none is missing in between.
            by_turn: self.by_turn.into_values().collect(),
        })
    }
}
