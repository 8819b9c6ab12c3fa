//! The log table: the actions that the driver has not taken yet, and the decisions kept for explain.
//!
//! The newest dispatch is recorded only once the driver has taken it (`machine/dispatch.rs`). Until
//! then it is here, and there is at most one.
//!
//! Not here: what a decision's record contains (`decide/describe.rs`).

use alloc::collections::VecDeque;
use meridian_base::{ReplicaId, RequestId, Time};

use crate::ending::Ending;
use crate::explain::{Decision, Journal};
use crate::output::Output;
use crate::why::Why;

/// A dispatch as it was decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) at: Time,
    pub(crate) id: RequestId,
    pub(crate) replica: ReplicaId,
    pub(crate) why: Why,
}

#[derive(Debug)]
pub(crate) struct Log {
    outputs: VecDeque<Output>,
    journal: Journal,
    /// The newest dispatch, until it has been recorded.
    unwritten: Option<Sent>,
}

impl Log {
    /// An empty log that keeps this many decisions.
    pub(crate) fn new(keep: usize) -> Log {
        Log { outputs: VecDeque::new(), journal: Journal::new(keep), unwritten: None }
    }

    /// Changes how many decisions are kept.
    pub(crate) fn configured(&mut self, keep: usize) {
        self.journal.configured(keep);
    }

    /// Adds an action for the driver.
    pub(crate) fn say(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    /// Removes and returns the first action.
    pub(crate) fn take(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Notes a dispatch that is to be recorded later.
    pub(crate) fn sent(&mut self, sent: Sent) {
        assert!(self.unwritten.is_none(), "a dispatch is recorded before the next one");
        self.unwritten = Some(sent);
    }

    /// Removes and returns the dispatch to record.
    #[inline]
    pub(crate) fn take_sent(&mut self) -> Option<Sent> {
        self.unwritten.take()
    }

    /// The decisions kept.
    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// A new decision to fill in, and its number; `None` when none are kept. It is about the request
    /// of decision `before`, which ends with it.
    pub(crate) fn next_decision(&mut self, now: Time, before: u64) -> Option<(u64, &mut Decision)> {
        self.journal.decided_again(now, before);
        self.journal.next()
    }

    /// Records the first token after a decision.
    pub(crate) fn first_token(&mut self, now: Time, decision: u64) {
        self.journal.first_token(now, decision);
    }

    /// Records the end of a decision.
    pub(crate) fn ended(&mut self, now: Time, decision: u64, ending: Ending) {
        self.journal.end(now, decision, ending);
    }

    /// Checks the invariants between events.
    ///
    /// # Panics
    ///
    /// When one does not hold.
    pub(crate) fn check_invariants(&self) {
        assert!(self.unwritten.is_none(), "the newest dispatch is recorded");
        self.journal.check();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Actions leave in their order, and a decision ends the one before it about the same request.
    #[test]
    fn in_order() {
        let mut log = Log::new(2);
        log.say(Output::Held(RequestId(1)));
        log.say(Output::Held(RequestId(2)));
        let (first, decision) = log.next_decision(Time::ZERO, 0).unwrap();
        decision.at = Time::ZERO;
        let (second, _) = log.next_decision(Time::from_millis(5), first).unwrap();
        assert_eq!((first, second), (1, 2));
        let before = log.journal().newest().last().unwrap();
        assert_eq!(before.ending.map(|(ending, _)| ending), Some(Ending::Released));
        assert_eq!(log.take(), Some(Output::Held(RequestId(1))));
        assert_eq!(log.take(), Some(Output::Held(RequestId(2))));
        assert_eq!(log.take(), None);
        log.check_invariants();
    }

    // A second dispatch before the first is recorded is a defect.
    #[test]
    #[should_panic(expected = "a dispatch is recorded before the next one")]
    fn one_dispatch_at_a_time() {
        let mut log = Log::new(2);
        let sent = Sent { at: Time::ZERO, id: RequestId(1), replica: ReplicaId(0), why: Why::Turn };
        log.sent(sent);
        log.sent(sent);
    }
}
