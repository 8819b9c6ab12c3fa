//! The HTTP server for clients: connections, heads, bodies, limits, CORS, health checks and
//! refusals.
//!
//! [`connection`] serves one connection through [`framing`]. If the HTTP library cannot parse a
//! request, [`malformed`] writes the answer instead. [`service`] answers the requests that can be
//! parsed.

pub(crate) mod body;
pub(crate) mod collect;
pub(crate) mod connection;
pub(crate) mod cors;
mod framing;
pub(crate) mod head;
pub(crate) mod headers;
pub(crate) mod limits;
pub(crate) mod malformed;
mod opening;
pub(crate) mod parts;
pub(crate) mod stalled;
