//! The life of a request: [`entry`] answers it, [`admit`] reads it, [`lifecycle`] follows the
//! machine's decisions, [`attempt`] sends it, [`respond`] builds the answer's head, [`relay`]
//! streams the answer, and [`resume`] continues a stream that broke.

pub(crate) mod admit;
mod answering;
pub(crate) mod answers;
pub(crate) mod attempt;
mod audit;
pub(crate) mod body;
pub(crate) mod candidate;
pub(crate) mod client;
pub(crate) mod context;
mod delivery;
pub(crate) mod destination;
pub(crate) mod engine_error;
pub(crate) mod entry;
pub(crate) mod fallback;
mod handed_back;
pub(crate) mod incoming;
mod leg;
mod legs;
pub(crate) mod lifecycle;
mod noted;
pub(crate) mod odd;
pub(crate) mod origin;
mod reach;
pub(crate) mod relay;
mod reserved;
mod respond;
pub(crate) mod resume;
pub(crate) mod silence;
mod unread;
mod usage;
