//! Tools of the laboratory: the load generator and what is built on it, single flows and prefill
//! clusters under flow policies, and what all of them share: statistics, tables, plots, results.

pub mod beside;
pub mod bits;
pub mod calibrate;
pub mod cluster;
mod commit;
pub mod compare;
pub mod dist;
pub mod fit;
pub mod flat;
pub mod generator;
pub mod given;
pub mod load;
pub mod metric;
pub mod outputs;
mod parallel;
#[cfg(feature = "parquet")]
mod parquet;
pub mod plot;
pub mod replay;
pub mod results;
pub mod rule;
pub mod staged;
pub mod stats;
pub mod sweep;
pub mod table;
pub mod trace_file;
pub mod yaml;

pub use commit::{built, commit, modified};
pub use parallel::parallel;
