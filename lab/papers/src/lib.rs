//! Published results beside those of the simulator: [`experiment`] has the experiments, [`fleet`] the
//! planner's fleets under each system, [`calibration`] the engine model beside measurements, and
//! [`what_if`] a user's own traffic in the worlds that experiments are made of.

pub mod calibration;
pub mod experiment;
pub mod fleet;
pub mod what_if;
