//! The online choice: the algorithm for each operation of a communicator, by the load of the links.
//!
//! A plan's [`PolicyTable`](crate::PolicyTable) has every algorithm of every group with a byte's
//! load on each link. Two schedulers choose from it: [`Balance`], the corrected one, and
//! [`Printed`], HeroServe's equations 16 to 18 as printed in section III-D. Either runs in one
//! place for all groups. Its choices reach the ranks as tables. [`Follower`] activates a table at a
//! count of operations and never at a time, so that all ranks of a communicator do the same.
//!
//! Nothing here moves bytes, reads a clock or measures a link: times and counters are inputs.

mod balance;
mod follow;
mod printed;

pub use balance::{Balance, Pick, Settings};
pub use follow::{Follower, Refused, Step};
pub use printed::Printed;
