//! Loads live endpoints and measures what comes back; races the gateway against others.
//!
//! [`load`] is the generator behind `meridian bench`, [`race`] the side-by-side comparison behind
//! `./x bench gateway`, and [`mock`] the replica at the end of its line, which answers at once.
//! [`flowspeed`] measures the flow machine, as [`decision`] does the routing machine.
//! [`forward`] measures what a forward costs beyond the round trip, [`digests`] what regions cost that
//! tell each other how they are.
//! [`calibrate`] fits a live replica's TTFT.
//! [`simspeed`] measures the simulator itself, and [`parity`] how true it is.
//! [`fleet`] sets up the planner's fleets and what each system serves on them.
//! [`cluster`] reads prefill clusters and says what flow policies make of them, [`given`] single flows.
//! [`experiment`] holds the simulated experiments beside what papers publish.

pub mod beside;
pub mod calibrate;
pub mod calibration;
pub mod cluster;
mod commit;
pub mod decision;
pub mod digests;
pub mod experiment;
pub mod fit;
pub mod fleet;
pub mod flowspeed;
pub mod forward;
pub mod given;
pub mod load;
pub mod mock;
pub mod parity;
pub mod planspeed;
pub mod race;
pub mod simspeed;
pub mod trace_file;
mod yaml;

pub use commit::commit;
