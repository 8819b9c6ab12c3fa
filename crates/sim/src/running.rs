//! A run: the world is turned until nothing is left to happen.

use meridian_base::Time;

use crate::impossible::Impossible;
use crate::report::Report;
use crate::scenario::Scenario;
use crate::twin::Twin;
use crate::world::World;

/// Runs a scenario to its end.
///
/// # Errors
/// When the scenario contradicts itself.
pub fn run(scenario: Scenario) -> Result<Report, Impossible> {
    Running::new(scenario).map(Running::end)
}

/// The same, doing in addition what the drivers of a live run do.
///
/// # Errors
/// As [`run`].
pub fn run_twin(scenario: Scenario, twin: Twin) -> Result<Report, Impossible> {
    World::new(scenario, Some(twin)).map(|world| Running(world).end())
}

/// A run under way, for those who look at what it costs: [`run`] is all of it at once.
pub struct Running(World);

impl Running {
    /// The world before anything has happened.
    ///
    /// # Errors
    /// When the scenario contradicts itself.
    pub fn new(scenario: Scenario) -> Result<Running, Impossible> {
        World::new(scenario, None).map(Running)
    }

    /// Lets all happen that happens up to `time`.
    pub fn until(&mut self, time: Time) {
        while self.0.queue.next().is_some_and(|next| next <= time) {
            self.0.turn();
        }
    }

    /// Events handled so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.0.report.events
    }

    /// Lets the rest happen.
    #[must_use]
    pub fn end(mut self) -> Report {
        while self.0.turn() {}
        self.0.close()
    }
}
