//! From a request's head to an admitted request: who sent it, its body, its model and its limits.

pub(crate) mod admit;
pub(crate) mod candidate;
pub(crate) mod client;
pub(crate) mod entry;
pub(crate) mod fallback;
pub(crate) mod origin;
mod question;
