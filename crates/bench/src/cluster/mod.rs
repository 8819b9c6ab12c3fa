//! Prefill clusters from a file: what is served on which network under which load, and what each flow
//! policy makes of it.
//!
//! [`file`] is the cluster as it is written down, [`load`] its requests, [`plan`] makes both into what
//! the simulator runs; [`score`] is what is said of a run, and [`timeline`] draws who had a port.

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
