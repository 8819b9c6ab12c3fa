//! The online choice: which way each operation of a communicator takes, by the load of the links.
//!
//! A plan's [`PolicyTable`](crate::PolicyTable) has every way of every group with what a byte puts on
//! each link. Two schedulers choose from it: [`Balance`], the corrected one, and [`Printed`],
//! HeroServe's equations 16 to 18 as they stand in section III-D. Either runs in one place for all
//! groups. What it chose reaches the ranks as tables, which [`Follower`] puts in force at a count of
//! operations and never at a time, so that all ranks of a communicator do the same.
//!
//! Nothing here moves bytes, reads a clock or measures a link: times and counters are told.

mod balance;
mod follow;
mod printed;

pub use balance::{Balance, Pick, Settings};
pub use follow::{Follower, Refused, Step};
pub use printed::Printed;
