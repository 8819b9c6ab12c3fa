//! A run: drives the world until no events are left.

use meridian_base::Time;

use crate::impossible::Impossible;
use crate::report::Report;
use crate::run::World as _;
use crate::scenario::Scenario;
use crate::twin::Twin;
use crate::world::World;

/// Runs a scenario to its end.
///
/// # Errors
///
/// When the scenario is inconsistent.
pub fn run(scenario: Scenario) -> Result<Report, Impossible> {
    Running::new(scenario).map(Running::end)
}

/// As [`run`], but also imitating the drivers of a live run.
///
/// # Errors
/// As [`run`].
pub fn run_twin(scenario: Scenario, twin: Twin) -> Result<Report, Impossible> {
    World::new(scenario, Some(twin)).map(|world| Running(world).end())
}

/// A run in progress, for measuring its cost: [`run`] does all of it at once.
pub struct Running(World);

impl Running {
    /// The world before the first event.
    ///
    /// # Errors
    ///
    /// When the scenario is inconsistent.
    pub fn new(scenario: Scenario) -> Result<Running, Impossible> {
        World::new(scenario, None).map(Running)
    }

    /// Runs all events up to `time`.
    pub fn until(&mut self, time: Time) {
        self.0.until(time);
    }

    /// Events handled so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.0.events()
    }

    /// Runs the remaining events.
    #[must_use]
    pub fn end(mut self) -> Report {
        self.0.until(Time::MAX);
        self.0.close()
    }
}
