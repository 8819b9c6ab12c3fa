//! The order of one tenant's waiting requests that have no deadline.
//!
//! The session that was served the fewest tokens lately goes next, with its oldest request. A request without a session
//! goes by its age beside that one: it may be a client's only one. If no request has a session, all go by age.
//!
//! A policy may prefer a later request for its score. It may not for one of a session that was served much more than
//! the least served one that waits: these come after all others that fit.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::class::Entry;
use super::sessions::Sessions;

/// How much more tokens: a few long conversations, far less than many sub-agents take within the time that is remembered.
pub(super) const MUCH_MORE: u64 = 1 << 16;

/// A request whose turn it is.
#[derive(Clone, Copy)]
pub(super) struct InTurn<'a> {
    pub(super) entry: &'a Entry,
    /// Whether its session was served much more than another that waits.
    pub(super) is_late: bool,
}

pub(super) struct Turns<'a> {
    queue: &'a VecDeque<Entry>,
    /// From this many tokens on, a session is late.
    much: u64,
    /// The next request without a session that may be one to go, in the queue.
    plain: usize,
    /// The requests with a session, those of a session together, by age.
    named: Vec<(u64, usize)>,
    lines: Vec<Line>,
}

/// The requests of a session that have not had their turn: a range of `named`.
struct Line {
    served: u64,
    first: usize,
    end: usize,
}

impl<'a> Turns<'a> {
    pub(super) fn new(queue: &'a VecDeque<Entry>, tenant: u64, sessions: &Sessions) -> Turns<'a> {
        let named = queue.iter().enumerate().filter(|(_, entry)| entry.deadline.is_none());
        let mut named: Vec<(u64, usize)> =
            named.filter_map(|(at, entry)| Some((entry.session?, at))).collect();
        named.sort_unstable();
        let mut end = 0;
        let lines = named.chunk_by(|a, b| a.0 == b.0).map(|line| {
            let first = end;
            end += line.len();
            Line { served: sessions.served(tenant, line[0].0), first, end }
        });
        let lines: Vec<Line> = lines.collect();
        let least = lines.iter().map(|line| line.served).min().unwrap_or(0);
        Turns { queue, much: least + MUCH_MORE, plain: 0, named, lines }
    }
}

impl<'a> Iterator for Turns<'a> {
    type Item = InTurn<'a>;

    fn next(&mut self) -> Option<InTurn<'a>> {
        let is_plain = |entry: &Entry| entry.session.is_none() && entry.deadline.is_none();
        let left = self.queue.len();
        self.plain = (self.plain..left).find(|at| is_plain(&self.queue[*at])).unwrap_or(left);
        let waiting = self.lines.iter_mut().filter(|line| line.first < line.end);
        let line = waiting.min_by_key(|line| (line.served, self.named[line.first].1));
        match line {
            Some(line) if self.named[line.first].1 < self.plain => {
                let entry = &self.queue[self.named[line.first].1];
                let is_late = line.served > self.much;
                line.first += 1;
                line.served += entry.tokens();
                Some(InTurn { entry, is_late })
            }
            _ => {
                let entry = self.queue.get(self.plain)?;
                self.plain += 1;
                Some(InTurn { entry, is_late: false })
            }
        }
    }
}
