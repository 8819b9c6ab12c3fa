//! Single flows from a file: ports and flows, and the results of each flow policy.
//!
//! [`mod@file`] is the file format, [`plan`] turns it into a simulation, and [`compare`] runs it
//! under several policies. Use it for worked examples, such as the paper's, and to understand a
//! single transfer; for a cluster with models see [`cluster`](crate::cluster).

pub mod compare;
pub mod file;
pub mod plan;

pub use file::File;
pub use plan::given;

#[cfg(test)]
mod tests;
