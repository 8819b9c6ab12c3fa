//! Traffic classes on real hosts: collectives above KV, with a floor for KV.
//!
//! A static order of classes takes most of the gain of a flow scheduler where cards are busy
//! (lab/docs/flow.md), and every Linux host and every switch can enforce it. This module has the
//! classes with their code points, the `tc` commands that queue by them, templates for switches,
//! and the settings with which transfer libraries mark their packets. Everything but [`Tc`] and
//! [`mark()`] is text and can be printed anywhere.
//!
//! Deliberately not here: a daemon, limits of single flows, and the receiving side of a card. The
//! kernel orders only what it sends.

mod apply;
mod card;
mod class;
mod environment;
mod ets;
mod filters;
mod htb;
mod mark;
mod root;
mod rules;
mod script;
mod shape;
mod speed;
mod switch;
#[cfg(test)]
mod tests;
mod text;

pub use apply::{After, Applied, ApplyError, Tc};
pub use card::card;
pub use class::{COLLECTIVE, Class, Classes, EIGHT, KV};
pub use environment::environment;
pub use mark::{MarkError, Marked, mark};
pub use root::Root;
pub use script::{Line, Script};
pub use shape::{Kind, Shape, ShapeError};
pub use speed::shaped_rate;
pub use switch::{Vendor, Weights};
pub use text::{Percent, Rate, TextError};
