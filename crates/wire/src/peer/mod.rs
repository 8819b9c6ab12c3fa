//! What gateways of a fleet tell each other: who they are, how their regions are, how far away.
//!
//! `peer.proto` is the protocol. `proto.rs` is made from it and kept in the repository, so that
//! building needs neither a protobuf compiler nor a build script; a test makes it anew and
//! compares (`REWRITE=1` writes it). Its types stay in here: what other crates see was checked
//! when it was read, and a message that breaks a bound is an error that names its field.
//!
//! A digest is told as news: a [`Page`] is what all are told, [`Telling`] keeps what one peer was told
//! and gives the difference,
//! [`Hearing`] keeps what one peer told and gives the digest again.
//!
//! Requests that one gateway sends on to another are ordinary HTTP on the same port. What it says of
//! them is in `marks.rs`, and what comes back beside the answer in `account.rs`.
//!
//! Deliberately not here: sockets, TLS, and when something is sent.

mod account;
mod bounds;
mod changes;
mod hearing;
mod hello;
mod holdings;
mod identity;
mod marks;
mod message;
mod news;
mod page;
mod party;
mod places;
#[rustfmt::skip]
#[allow(unreachable_pub)]
mod proto;
mod rules;
mod telling;

pub use account::{usage_of, usage_trailers};
pub use bounds::{MOST_BLOCKS, MOST_MESSAGE, MOST_MODELS, MOST_REPLICAS, PeerError};
pub use changes::Changes;
pub use hearing::Hearing;
pub use hello::{Agreement, Hello, MAJOR, MINOR, PLACES_SINCE, RULES_SINCE, Refused, seed_check};
pub use holdings::parts;
pub use identity::{Identity, IdentityError, label};
pub use marks::{Marks, MarksError};
pub use message::{Ask, FOLLOW, Tell, WARM};
pub use news::News;
pub use page::Page;
pub use party::{Party, control_name};
pub use rules::{MOST_RULES, MOST_TERMS, shown, term};
pub use telling::Telling;

#[cfg(test)]
mod tests;
