//! The client's side of HTTP/1.1, as far as a gateway needs it towards replicas: one request at a
//! time over a connection that the reader of the answer polls.
//!
//! A read goes into a buffer that all connections of a thread share, and the chunks in it become one
//! piece of exactly their size. An open stream therefore owns no buffer while it waits, its answer is
//! copied once, and tokens that arrived together are written together. httparse reads the heads
//! (notes/decisions/http1-client.md has the reasons and what hyper's client costs).
//!
//! It does not pipeline, upgrade or follow redirects, and it drops trailers, which engines do not
//! send.

mod body;
mod broken;
mod head;
mod line;
mod request;

pub(crate) use broken::Broken;
pub(super) use line::{Line, Unanswered};
pub(super) use request::Host;
pub(crate) use request::Request;
