//! Benchmarks: loads live endpoints, measures the answers, and races the gateway against others.
//!
//! [`load`] is the generator behind `meridian bench`, [`race`] the side-by-side comparison behind
//! `./x bench gateway`, and [`mock`] the replica at the end of its line, which answers at once.
//! [`flowspeed`] measures the flow machine, as [`decision`] does the routing machine. [`forward`]
//! measures the cost of a forward beyond the round trip, [`digests`] the cost of digests between
//! regions. [`calibrate`] fits a live replica's TTFT. [`simspeed`] measures the simulator itself, [`planet`] the same at the size of a planet,
//! and [`parity`] its accuracy. [`control`] measures a control plane. [`sweep`] finds the rate that an endpoint carries, [`replay`] sends
//! recorded requests, and [`compare`] compares two runs of the load generator. [`fleet`] runs the planner's fleets under each system. [`cluster`]
//! runs prefill clusters under flow policies, and [`given`] single flows. [`experiment`] has the
//! simulated experiments, compared with published results, and [`what_if`] a user's own traffic on
//! other fleets.

pub mod beside;
pub mod calibrate;
pub mod calibration;
pub mod cluster;
mod commit;
pub mod compare;
pub mod control;
pub mod decision;
pub mod digests;
pub mod experiment;
pub mod fit;
pub mod fleet;
pub mod flowspeed;
pub mod forward;
pub mod given;
mod json_file;
pub mod load;
pub mod mock;
pub mod parity;
pub mod planet;
pub mod planspeed;
pub mod race;
pub mod replay;
pub mod rule;
pub mod simspeed;
mod staged;
pub mod sweep;
pub mod trace_file;
pub mod what_if;
mod yaml;

pub use commit::commit;
