//! HeroServe's systems on a simulated fleet: a placement by the planner or its rivals, ways of the
//! all-reduces, a chooser among them, and a load, run by [`meridian_sim::fleet`].
//!
//! One unit of a topology is simulated: units repeat and have no traffic between them.

mod assumptions;
mod build;
mod choose;
mod exchange;
pub mod lengths;
mod measure;
mod place;
mod ports;
mod system;

pub use assumptions::{Assumption, Assumptions};
pub use build::Deployed;
pub use choose::Chooser;
pub use exchange::Exchange;
pub use measure::{Asked, Score, score, sustained};
pub use place::{Layout, Placed};
pub use system::{Mode, System, ways};
