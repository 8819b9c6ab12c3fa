//! The definition of a scenario: its faults, its clients, and the fleet that it needs. The scenarios
//! are in `scenes.rs`.

use std::time::Duration;

use meridian_base::Rng;

use super::super::{Demand, Options as Up};
use super::Options;
use super::clients::Habits;
use super::deck::Deck;
use super::schedule::{Fault, Schedule};
use crate::{Result, clocks};

/// A scenario.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) faults: Faults,
    /// What loads of sessions, trees and chats may lose; none without loads.
    pub(super) loads: Option<Promise>,
    /// Clients that know the expected answers.
    pub(super) crowd: &'static [Habits],
    /// For this seed, whether broken streams resume on another replica, once for each run.
    pub(super) resume: fn(u64) -> Vec<bool>,
    /// Changes the usual fleet: three regions, one control plane.
    pub(super) fleet: fn(&mut Up),
}

/// The source of the faults.
pub(super) enum Faults {
    /// Events and their times.
    Table(&'static [&'static str]),
    /// Random kills and cuts for this many seconds, each repaired a few seconds later.
    Storm(f64),
    /// Cards for the time in `--for`.
    Deck(&'static Deck),
}

/// Effects of the faults that loads may see. In every case each request ends exactly once.
#[derive(Debug, Clone, Copy)]
pub(super) enum Promise {
    /// None.
    NothingLost,
    /// Only an answer that had started may break off: a request without any byte of an answer is
    /// retried elsewhere.
    OnlyStarted,
    /// In addition, a request may be refused with 503: it reached a suspended gateway, which was
    /// asked to end before it read the request.
    StartedOrRefused,
    /// Anything: losses are only shown.
    Nothing,
}

impl Scenario {
    /// The command that repeats it.
    pub(super) fn again(&self, options: &Options) -> String {
        let length = match self.faults {
            Faults::Deck(_) => format!(" --for {}s", options.length.as_secs()),
            _ => String::new(),
        };
        format!("meridian chaos {}{length} --seed {}", self.name, options.seed)
    }

    /// The settings of a run.
    pub(super) fn up(&self, options: &Options, resume: bool) -> Result<Up> {
        let mut up = Up {
            regions: ["us", "eu", "asia"].map(str::to_owned).into(),
            demand: self.loads.map_or(Demand::None, |_| Demand::Steady),
            seed: options.seed,
            binary: options.binary.clone(),
            clocks: if self.sets_clocks() { Some(clocks::library()?) } else { None },
            resume,
            log_requests: self.loads.is_none(),
            ..Up::default()
        };
        (self.fleet)(&mut up);
        Ok(up)
    }

    /// The faults of a run of this length.
    pub(super) fn schedule(&self, length: Duration, rng: &mut Rng) -> Schedule {
        let fault = match self.faults {
            Faults::Deck(deck) => return deck.deal(length.as_secs_f64(), rng),
            Faults::Table(lines) => Fault::of_table(self.name, lines, rng),
            Faults::Storm(seconds) => Fault::storm(self.name, seconds, rng),
        };
        Schedule { faults: vec![fault], in_turn: false }
    }

    fn sets_clocks(&self) -> bool {
        matches!(self.faults, Faults::Table(lines) if lines.iter().any(|l| l.contains(" clock ")))
    }
}

#[cfg(test)]
mod tests;
