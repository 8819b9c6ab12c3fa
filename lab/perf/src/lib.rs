//! The project measures itself, behind `./x bench`.
//!
//! [`race`] compares the gateway with other programs, in front of [`mock`], a replica that answers at
//! once. [`decision`] measures the routing machine, [`flowspeed`] the flow machine, [`forward`] a
//! forward beyond its round trip, [`digests`] what regions send each other, [`siblings`] what gateways
//! of one region do, [`control`] a control plane, [`simspeed`] and [`planet`] the simulator,
//! [`planspeed`] the planner.

pub mod control;
pub mod decision;
pub mod digests;
pub mod flowspeed;
pub mod forward;
mod harness;
pub mod mock;
pub mod planet;
pub mod planspeed;
pub mod race;
pub mod siblings;
pub mod simspeed;
