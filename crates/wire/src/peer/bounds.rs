//! What a peer's message may hold, and the error that says what it broke.
//!
//! A peer is of the fleet, but it may be broken. Everything is bounded twice: the bytes of a
//! message, before any of it is read, and then the number and the values of what is in it. An
//! empty replica is two bytes on the wire and some seventy in memory, so no message makes its
//! reader take more than 5 MB for as long as it is read.

/// Most bytes of a message: about twice what the most replicas need.
pub const MOST_MESSAGE: usize = 128 << 10;
/// Most replicas that a peer may tell of.
pub const MOST_REPLICAS: usize = 1024;
/// Most blocks in one message.
pub const MOST_BLOCKS: usize = 8192;
/// Most models that a peer may tell of.
pub const MOST_MODELS: usize = 256;
/// Most bytes of a model's name.
pub(super) const MOST_MODEL: usize = 256;
/// Most bytes of a replica's host and port.
pub(super) const MOST_HOST: usize = 300;
/// Most bytes of a name that is not an identity's.
pub(super) const MOST_NAME: usize = 64;

/// What is wrong with a peer's message. The peer is broken, or no peer: the stream ends.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PeerError {
    /// Not a message of this protocol.
    #[error("the message cannot be read: {0}")]
    Unreadable(String),
    /// Too long.
    #[error("the message has {0} bytes, over {MOST_MESSAGE}")]
    Long(usize),
    /// Too many of something.
    #[error("{field}: {count} are told, at most {most} may be")]
    Many {
        /// Of what.
        field: &'static str,
        /// How many.
        count: usize,
        /// How many may be.
        most: usize,
    },
    /// A number that the field can't have.
    #[error("{field}: {value} is not {allowed}")]
    Value {
        /// Where.
        field: &'static str,
        /// What stands there.
        value: f64,
        /// What may stand there.
        allowed: &'static str,
    },
    /// The same replica twice in one message.
    #[error("{field}: replica {id} is told twice")]
    Twice {
        /// Where.
        field: &'static str,
        /// Which.
        id: u16,
    },
    /// Changes to something else than was told before.
    #[error("base: {base} is told on, and version {have} was the last")]
    Gap {
        /// What it is based on.
        base: u64,
        /// What was heard last; 0 for nothing.
        have: u64,
    },
    /// A version that does not count up.
    #[error("version: {version} follows {have}; versions count up")]
    Order {
        /// What it says.
        version: u64,
        /// What was heard last.
        have: u64,
    },
    /// A name that is none.
    #[error(transparent)]
    Name(#[from] super::IdentityError),
    /// A name that is too long.
    #[error("{field}: {bytes} bytes, over {most}")]
    LongName {
        /// Where.
        field: &'static str,
        /// How long.
        bytes: usize,
        /// How long it may be.
        most: usize,
    },
}

pub(super) fn at_most(field: &'static str, count: usize, most: usize) -> Result<(), PeerError> {
    if count <= most { Ok(()) } else { Err(PeerError::Many { field, count, most }) }
}

fn check(
    field: &'static str,
    value: f32,
    ok: bool,
    allowed: &'static str,
) -> Result<f32, PeerError> {
    if ok { Ok(value) } else { Err(PeerError::Value { field, value: f64::from(value), allowed }) }
}

/// A name that is not too long.
pub(super) fn name(field: &'static str, name: &str, most: usize) -> Result<(), PeerError> {
    let bytes = name.len();
    if bytes <= most { Ok(()) } else { Err(PeerError::LongName { field, bytes, most }) }
}

/// From 0 to 1.
pub(super) fn share(field: &'static str, value: f32) -> Result<f32, PeerError> {
    check(field, value, (0.0..=1.0).contains(&value), "a share from 0 to 1")
}

/// Finite, and not below 0.
pub(super) fn amount(field: &'static str, value: f32) -> Result<f32, PeerError> {
    check(field, value, value.is_finite() && value >= 0.0, "a finite number from 0")
}

/// Not below 0; infinite for what is unknown or has no bound.
pub(super) fn open(field: &'static str, value: f32) -> Result<f32, PeerError> {
    check(field, value, value >= 0.0, "a number from 0")
}

/// Any number.
pub(super) fn number(field: &'static str, value: f32) -> Result<f32, PeerError> {
    check(field, value, !value.is_nan(), "a number")
}

/// An id of a row.
pub(super) fn row(field: &'static str, value: u32) -> Result<u16, PeerError> {
    let no = PeerError::Value { field, value: f64::from(value), allowed: "an id below 65536" };
    u16::try_from(value).map_err(|_| no)
}
