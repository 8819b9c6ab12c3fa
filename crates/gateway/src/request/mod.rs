//! The life of a request: [`admit`] reads it and asks the machine, [`lifecycle`] follows what the machine
//! decides, [`attempt`] sends it, [`relay`] passes the answer on, and [`resume`] continues a stream that
//! broke.

pub(crate) mod admit;
pub(crate) mod attempt;
pub(crate) mod engine_error;
pub(crate) mod lifecycle;
pub(crate) mod odd;
pub(crate) mod relay;
pub(crate) mod resume;
pub(crate) mod silence;
