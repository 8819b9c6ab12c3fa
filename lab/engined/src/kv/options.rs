//! Settings of the transfer of KV.

use super::{Network, Routes};
use std::net::SocketAddr;
use std::time::Duration;

/// The part of requests that an engine is meant for. It is reported and changes nothing else: a
/// request's own params say which leg it is, as in vLLM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Whole requests and either leg.
    Both,
    /// Prefill legs.
    Prefill,
    /// Decode legs.
    Decode,
}

impl Role {
    /// Its name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Role::Both => "both",
            Role::Prefill => "prefill",
            Role::Decode => "decode",
        }
    }
}

/// What happens to a decode leg whose KV can't be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadFailure {
    /// It is answered with a 500.
    Fail,
    /// The engine computes the prompt itself.
    Recompute,
}

/// Settings of the transfer of KV between engines.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The part of requests that the engine is meant for.
    pub role: Role,
    /// Address of the side channel, which prefill answers name; port 0 is any free one.
    pub side_channel: SocketAddr,
    /// Address that prefill answers name in its place, if other engines reach it through a relay.
    pub announce: Option<SocketAddr>,
    /// How long blocks are held for a decode leg, in model time. A decoding engine renews a lease
    /// every sixth of its own, and each renewal extends it to two thirds from then.
    pub lease: Duration,
    /// Bytes on the socket for each byte of KV, above 0. At least 8 bytes a block are sent.
    pub scale: f64,
    /// Rate at which this engine's card sends KV, and at which it receives KV, in 10^9 bits per
    /// second of model time; above 0. Concurrent transfers share each.
    pub link_gbps: f64,
    /// The ways to and from other engines, by name; an engine without one shares the card.
    pub routes: Routes,
    /// What happens to a decode leg whose KV can't be fetched.
    pub load_failure: LoadFailure,
    /// The flow policy by which the card's transfers go; without one they share it.
    pub flow_policy: Option<String>,
    /// How engines reach each other.
    pub network: Network,
}

impl Default for Transfer {
    /// Any free loopback port, and vLLM's defaults: a lease of 30 s, and a 500 if KV can't be
    /// fetched. The link has 100 Gb/s, and 1/1024 of the KV is sent.
    fn default() -> Transfer {
        Transfer {
            role: Role::Both,
            side_channel: SocketAddr::from(([127, 0, 0, 1], 0)),
            announce: None,
            lease: Duration::from_secs(30),
            scale: 1.0 / 1024.0,
            link_gbps: 100.0,
            routes: Routes::default(),
            load_failure: LoadFailure::Fail,
            flow_policy: None,
            network: Network::default(),
        }
    }
}
