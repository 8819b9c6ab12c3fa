//! What flow scheduling is worth, by the use of the busiest card.
//!
//! The numbers are those of the simulation `meridian experiment mfs-load`, which writes the table.
//! [`read`] interpolates between its rows and never goes beyond them.

mod advice;
mod layers;
mod reading;
mod table;

#[cfg(test)]
mod tests;

pub use advice::{Advice, advise};
pub use layers::Layers;
pub use reading::{Place, Reading, read};
pub use table::{CSV, Ratio, Row, rows};
