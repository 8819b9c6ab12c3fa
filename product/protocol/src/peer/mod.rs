//! The peer protocol between gateways of a fleet: identities, region state, distances.
//!
//! `peer.proto` is the protocol. `proto.rs` is generated from it and kept in the repository, so
//! building needs neither a protobuf compiler nor a build script; a test generates it again and
//! compares (`REWRITE=1` writes it). Its types are private: other crates see only checked values,
//! and a message that breaks a limit is an error that names its field.
//!
//! A digest is sent as news:
//! - a [`Page`] is the content for all followers,
//! - [`Telling`] tracks the digest that one peer has, and computes the difference,
//! - [`Hearing`] applies the news from one peer, and restores the digest.
//!
//! Forwarded requests are ordinary HTTP on the same port. Their additional headers are in
//! `marks.rs`, and the additional trailers of the answer in `account.rs`.
//!
//! Deliberately not here: sockets, TLS, and when to send.

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
mod queue;
mod rules;
mod siblings;
mod telling;

pub use account::{usage_of, usage_trailers};
pub use bounds::{
    MOST_BLOCKS, MOST_EVENTS, MOST_MESSAGE, MOST_MODELS, MOST_NAMED, MOST_REPLICAS, PeerError,
};
pub use changes::Changes;
pub use hearing::Hearing;
pub use hello::{
    Agreement, Hello, MAJOR, MINOR, PLACES_SINCE, RULES_SINCE, Refused, SIBLINGS_SINCE, seed_check,
};
pub use holdings::parts;
pub use identity::{Identity, IdentityError, label};
pub use marks::{DIED, Marks, MarksError};
pub use message::{Ask, FOLLOW, Tell, WARM};
pub use news::News;
pub use page::Page;
pub use party::{Party, control_name};
pub use rules::{MOST_RULES, MOST_TERMS, shown, term};
pub use siblings::{Batches, SiblingBatch};
pub use telling::Telling;

#[cfg(test)]
mod tests;
