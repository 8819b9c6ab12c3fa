//! Up and down intervals of a replica or a gateway (GORGO, section 3.5): each with its state, the
//! cause of it, and when it began and ended.
//!
//! An observer keeps a [`History`] for each and enters every change of state. The newest intervals
//! are kept and the older ones only counted. The observer passes the time in, as milliseconds since
//! 1970 that never go back.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

/// Intervals that are kept of each replica and gateway.
pub const MOST_INTERVALS: usize = 32;

/// It serves.
pub const UP: &str = "up";
/// It should serve and does not answer.
pub const DOWN: &str = "down";
/// It was removed.
pub const REMOVED: &str = "removed";

/// `GET /admin/intervals`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Intervals {
    /// The date of this answer, in ms since 1970.
    pub now_ms: u64,
    /// The replicas. A gateway names them by URL, so that a replica that is removed and added again
    /// has one history; the control plane by record.
    pub replicas: Vec<History>,
    /// The gateways: of a gateway, its peers.
    pub gateways: Vec<History>,
}

/// The intervals of one replica or gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// Its name.
    pub name: String,
    /// Totals of all intervals.
    #[serde(flatten)]
    pub totals: Totals,
    /// The newest intervals, oldest first. The last one has not ended.
    pub intervals: VecDeque<Interval>,
}

/// Totals of one replica or gateway since its observer started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Ms down, with the present interval.
    pub down_ms: u64,
    /// How often each state was entered, by its cause.
    pub transitions: BTreeMap<String, BTreeMap<String, u64>>,
}

/// An interval in one state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// The state.
    pub state: String,
    /// Why it was entered.
    pub cause: String,
    /// When it began, in ms since 1970.
    pub begin_ms: u64,
    /// When it ended, in ms since 1970; none if it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_ms: Option<u64>,
}

/// The present state of a replica or gateway, and its totals, for a status page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// The present interval.
    #[serde(flatten)]
    pub now: Interval,
    /// Totals of all intervals.
    #[serde(flatten)]
    pub totals: Totals,
}

impl History {
    /// A history without intervals.
    #[must_use]
    pub fn of(name: impl Into<String>) -> History {
        History { name: name.into(), ..History::default() }
    }

    /// The present state; none before the first.
    #[must_use]
    pub fn state(&self) -> Option<&str> {
        self.intervals.back().map(|now| now.state.as_str())
    }

    /// Enters a state; returns false if it is in this state already. The cause of a state is that of
    /// its begin.
    pub fn enter(&mut self, now_ms: u64, state: &str, cause: &str) -> bool {
        if self.state() == Some(state) {
            return false;
        }
        if let Some(last) = self.intervals.back_mut() {
            let end = now_ms.max(last.begin_ms);
            last.end_ms = Some(end);
            if last.state == DOWN {
                self.totals.down_ms += end - last.begin_ms;
            }
        }
        let causes = self.totals.transitions.entry(state.to_owned()).or_default();
        *causes.entry(cause.to_owned()).or_default() += 1;
        while self.intervals.len() >= MOST_INTERVALS {
            self.intervals.pop_front();
        }
        let (state, cause) = (state.to_owned(), cause.to_owned());
        self.intervals.push_back(Interval { state, cause, begin_ms: now_ms, end_ms: None });
        assert!(self.intervals.len() <= MOST_INTERVALS, "only the newest intervals are kept");
        true
    }

    /// The totals at this time.
    #[must_use]
    pub fn totals(&self, now_ms: u64) -> Totals {
        let lasts = self.intervals.back().filter(|last| last.state == DOWN);
        let more = lasts.map_or(0, |last| now_ms.saturating_sub(last.begin_ms));
        Totals { down_ms: self.totals.down_ms + more, ..self.totals.clone() }
    }

    /// The history at this time.
    #[must_use]
    pub fn at(&self, now_ms: u64) -> History {
        History { totals: self.totals(now_ms), ..self.clone() }
    }

    /// The present state and the totals; none before the first state.
    #[must_use]
    pub fn standing(&self, now_ms: u64) -> Option<Standing> {
        let now = self.intervals.back()?.clone();
        Some(Standing { now, totals: self.totals(now_ms) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Intervals touch, an entry of the same state changes nothing, and downtime grows while it lasts.
    #[test]
    fn intervals_touch() {
        let mut history = History::of("a");
        assert!(history.standing(0).is_none());
        assert!(history.enter(100, "up", "answered"));
        assert!(!history.enter(150, "up", "answered"));
        assert!(history.enter(200, "down", "refused"));
        assert!(!history.enter(250, "down", "timeout"), "the first cause stays");
        assert_eq!(history.totals(260).down_ms, 60);
        assert!(history.enter(300, "up", "answered"));
        assert_eq!(history.totals(9_000).down_ms, 100);
        let ends: Vec<_> = history.intervals.iter().map(|i| (i.begin_ms, i.end_ms)).collect();
        assert_eq!(ends, [(100, Some(200)), (200, Some(300)), (300, None)]);
        let totals = history.totals(9_000).transitions;
        assert_eq!((totals["up"]["answered"], totals["down"]["refused"]), (2, 1));
        assert_eq!(totals["down"].len(), 1);
    }

    // Only the newest intervals are kept; the totals count all of them.
    #[test]
    fn the_newest_are_kept() {
        let mut history = History::of("a");
        for n in 0..100 {
            history.enter(2 * n, "up", "answered");
            history.enter(2 * n + 1, "down", "refused");
        }
        assert_eq!(history.intervals.len(), MOST_INTERVALS);
        assert_eq!(history.totals(200).down_ms, 100);
        assert_eq!(history.totals(200).transitions["down"]["refused"], 100);
        let text = serde_json::to_string(&history.at(200)).unwrap();
        assert_eq!(serde_json::from_str::<History>(&text).unwrap(), history.at(200));
    }
}
