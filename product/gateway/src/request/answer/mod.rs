//! From the first piece of an answer to its last byte at the client.

mod audit;
pub(crate) mod body;
pub(crate) mod delivery;
pub(crate) mod incoming;
pub(crate) mod keep_alive;
pub(crate) mod mismatch;
pub(crate) mod relay;
pub(crate) mod respond;
pub(crate) mod resume;
pub(crate) mod scan;
mod unread;
