//! What if: the same traffic on other fleets and under other policies.
//!
//! A [`Question`] names traffic (a trace, the gateway's journal or a generator), fleets and policies.
//! [`answer()`] simulates each policy on each fleet, with the gateway's own routing code and the engine
//! model, and searches the smallest fleet that meets an objective. [`Report`] shows the result as
//! text, CSV, JSON, a plot and a page.
//!
//! Requests arrive at their own times, whatever the fleet answers (an open loop). Nothing is fitted
//! here: engines come from `engine`, prices from [`crate::experiment::price`].

mod answer;
mod fleet;
mod headline;
mod interval;
mod json;
mod least;
mod live;
mod made;
mod measured;
mod names;
mod overload;
mod page;
mod places;
mod plot;
mod question;
mod report;
mod residency;
mod rows;
mod run;
mod settle;
mod shadow;
mod table;
mod traffic;
mod waiting;

pub use answer::{Answer, Found, Least, Progress, answer};
pub use fleet::{Arrangement, Gpus, Sizes};
pub use live::Live;
pub use made::Made;
pub use overload::Overload;
pub use places::Places;
pub use question::{Prices, Question};
pub use report::Report;
pub use rows::Row;
pub use traffic::{Cut, Source, TraceFile, Traffic};

#[cfg(test)]
mod tests;
