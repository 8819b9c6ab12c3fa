//! The HTTP server for clients: connections, heads, bodies, limits and CORS.
//!
//! [`connection`] serves one connection through [`framing`] and gets its answers by
//! [`connection::Answers`]. If the HTTP library cannot parse a request, [`malformed`] writes the answer
//! instead. hyper then pulls the body of an answer through [`framing`].

pub(crate) mod body;
pub(crate) mod collect;
pub(crate) mod connection;
pub(crate) mod connection_slots;
pub(crate) mod cors;
mod framing;
pub(crate) mod head;
pub(crate) mod headers;
pub(crate) mod limits;
pub(crate) mod malformed;
mod opening;
pub(crate) mod parts;
pub(crate) mod stalled;
