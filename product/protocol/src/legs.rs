//! The protocols between a prefill replica and a decode replica that serve one request together.
//!
//! One replica computes the prompt, the other fetches its KV and writes the answer. Engines differ
//! in how they learn of each other: from parameters in the prefill's answer, from a transfer id in
//! both requests, from a rendezvous, from a shared store, or from a proxy beside the decode engine.
//! A protocol is one file here and one line in [`ALL`]: the order of the two legs, and the members
//! and headers that each leg gets. Configuration, documentation and tests follow from that line.
//!
//! Everything here is pure: facts about a pair in, bytes out. A leg's body is the client's, with
//! splices: [`prefill_leg`](crate::openai::prefill_leg) limits it, and
//! [`Splices::with_members`](crate::openai::Splices::with_members) inserts the protocol's members.
//! A decode leg without members is an ordinary request, whose prompt its engine computes itself:
//! that is the fallback for every error here, since half of the parameters can end an engine.
//! Clients cannot send these members or headers; see [`crate::engines::private`].

mod added;
mod finish;
mod handed;
mod header;
mod mooncake;
mod nixl;
mod ordered;
mod pair;
mod ranks;
mod sglang;
mod spec;
mod unique;

#[cfg(test)]
mod tests;

pub use added::Added;
pub use finish::Finish;
pub use handed::{Handed, MAX_ANSWER, NoParams};
pub use pair::{Lacks, Pair};
pub use ranks::{BadRanks, Rank, ranks};
pub use spec::{Order, Protocol};

/// Every protocol, in the order of lists.
pub static ALL: &[&Protocol] =
    &[&nixl::SPEC, &mooncake::SPEC, &sglang::SPEC, &ordered::SPEC, &header::SPEC];

/// The protocol called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Protocol> {
    ALL.iter().copied().find(|protocol| protocol.name == name)
}
