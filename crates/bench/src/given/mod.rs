//! Single flows from a file: ports, what crosses them, and what each flow policy makes of it.
//!
//! [`mod@file`] is the flows as they are written down, [`plan`] makes them into what the simulator
//! runs, and [`compare`] runs them under several policies. For worked examples, such as the paper's,
//! and for a transfer that one wants to understand; a cluster with its models is
//! [`cluster`](crate::cluster).

pub mod compare;
pub mod file;
pub mod plan;

pub use file::File;
pub use plan::given;

#[cfg(test)]
mod tests;
