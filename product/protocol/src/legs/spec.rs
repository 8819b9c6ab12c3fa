//! The declaration of a protocol.

use std::fmt;

use super::added::Added;
use super::handed::Handed;
use super::pair::{Lacks, Pair};

/// A protocol: everything that sets it apart from the others.
pub struct Protocol {
    /// Its name in configuration, metrics and status.
    pub name: &'static str,
    /// The software that speaks it, in one line for the command line and the documentation.
    pub summary: &'static str,
    /// Where it is defined.
    pub source: &'static str,
    /// The order of the legs.
    pub order: Order,
    /// Whether the prefill leg's body is [limited](crate::openai::prefill_leg). Otherwise its body
    /// is the client's with the usual splices, and the prefill engine ends the leg itself; the
    /// requests that one replica has to serve whole are the same.
    pub limits_prefill: bool,
    /// Whether the prefill's answer has parameters for the decode leg ([`Handed`]).
    pub hands_over: bool,
    /// Whether KV is handed over only by a prefill that [ends by its
    /// limit](super::Finish::Limit). After another end the decode engine waits for KV that never
    /// comes, and the gateway has to end it.
    pub needs_limit: bool,
    /// Whether the decode leg names the prefill engine by its id, which [`ranks`](super::ranks())
    /// reads from its bootstrap server.
    pub names_engine: bool,
    /// The usual port of the prefill engine's bootstrap server, if the protocol has one.
    pub bootstrap_port: Option<u16>,
    /// The additions to the prefill leg.
    pub prefill: fn(&Pair<'_>) -> Result<Added, Lacks>,
    /// The additions to the decode leg. If the prefill's answer has no good parameters, there are
    /// none.
    pub decode: fn(&Pair<'_>, Option<&Handed>) -> Result<Added, Lacks>,
}

/// The order of the two legs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// The decode leg starts after the prefill's answer.
    PrefillFirst,
    /// Both start at once. The decode leg's answer is the client's.
    Together,
    /// The gateway sends the decode leg only; a proxy beside its engine sends the prefill leg.
    DecodeOnly,
}

impl fmt::Debug for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Protocol").field(&self.name).finish()
    }
}

impl PartialEq for Protocol {
    fn eq(&self, other: &Protocol) -> bool {
        self.name == other.name
    }
}

impl Eq for Protocol {}
