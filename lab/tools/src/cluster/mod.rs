//! Prefill clusters from a file: models, network and load, and the results of each flow policy.
//!
//! [`mod@file`] is the file format of a cluster, [`load`] its requests, and [`plan`] turns both
//! into a simulation. [`score`] has the figures of a run, and [`timeline`] draws the flows at a
//! port.

pub mod compare;
pub mod file;
pub mod load;
pub mod plan;
pub mod score;
pub mod timeline;

pub use file::File;
pub use plan::setup;
pub use score::Score;

#[cfg(test)]
mod tests;
