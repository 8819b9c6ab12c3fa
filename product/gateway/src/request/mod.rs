//! The life of a request, in three rooms. [`arrive`] takes it from its head to an admitted request,
//! [`send`] follows the machine's decisions until an answer starts, and [`answer`] carries that to
//! the client. Imports go from `arrive` to `answer` to `send`, since a stream that breaks is sent
//! again; what all three use of one request is in
//! [`context`] and [`reserved`], and of the gateway in [`plane`].

pub(crate) mod answer;
pub(crate) mod arrive;
pub(crate) mod context;
pub(crate) mod plane;
pub(crate) mod reserved;
pub(crate) mod send;
