//! The two replicas of one attempt, as far as a protocol has to name them.

use std::borrow::Cow;

/// A prefill and a decode replica, for one attempt of one request.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// Random, and fresh for each attempt. Engines match the legs by it, and two requests with one
    /// id end them.
    pub id: u64,
    /// Host of the prefill replica, by which the decode replica reaches it: a name or an address,
    /// without brackets.
    pub host: &'a str,
    /// HTTP port of the prefill replica.
    pub port: u16,
    /// Host of its bootstrap server, if it is another.
    pub bootstrap_host: Option<&'a str>,
    /// Port of its bootstrap server, if it is not the protocol's usual one.
    pub bootstrap_port: Option<u16>,
    /// The prefill engine's id: [`Rank::engine_id`](super::Rank::engine_id) of `rank`.
    pub engine_id: Option<&'a str>,
    /// The data-parallel rank for the prefill, if it is known. It is then pinned.
    pub rank: Option<u32>,
    /// Milliseconds left of the request's TTFT objective when the leg is sent, if it has one.
    pub ttft_left_ms: Option<u64>,
}

impl<'a> Pair<'a> {
    /// Host and port of the bootstrap server.
    pub(super) fn bootstrap(&self, usual: u16) -> (&'a str, u16) {
        (self.bootstrap_host.unwrap_or(self.host), self.bootstrap_port.unwrap_or(usual))
    }
}

/// `host:port`, with brackets around an IPv6 address.
pub(super) fn authority(host: &str, port: u16) -> String {
    let bare = host.contains(':') && !host.starts_with('[');
    let host = if bare { Cow::Owned(format!("[{host}]")) } else { Cow::Borrowed(host) };
    format!("{host}:{port}")
}

/// A fact about the prefill replica that the protocol needs is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("protocol `{protocol}` lacks `{field}` of the prefill replica: {remedy}")]
pub struct Lacks {
    /// The protocol.
    pub protocol: &'static str,
    /// The field of [`Pair`].
    pub field: &'static str,
    /// The remedy.
    pub remedy: &'static str,
}
