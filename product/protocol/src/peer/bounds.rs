//! Limits on a peer's messages, and the errors for breaking them.
//!
//! A peer belongs to the fleet, but it may be faulty. Limits apply twice: to the bytes of a message
//! before any of it is read, and then to the number and values of its contents. An empty replica
//! takes two bytes on the wire and some seventy in memory. Reading a message therefore never takes
//! more than 5 MB.

/// Most bytes of a message: about twice the need of the most replicas.
pub const MOST_MESSAGE: usize = 128 << 10;
/// Most replicas that a peer may report.
pub const MOST_REPLICAS: usize = 1024;
/// Most blocks in one message.
pub const MOST_BLOCKS: usize = 8192;
/// Most events of siblings' requests in one message.
pub const MOST_EVENTS: usize = 384;
/// Most replicas that those events may name.
pub const MOST_NAMED: usize = 96;
/// Most tenants whose limits one message has.
pub(super) const MOST_TENANTS: usize = 1024;
/// Most lines of a queue, and the most models that they name.
pub(super) const MOST_LINES: usize = 64;
/// Most models that a peer may report.
pub const MOST_MODELS: usize = 256;
/// Most bytes of a model's name.
pub(super) const MOST_MODEL: usize = 256;
/// Most bytes of a replica's host and port.
pub(super) const MOST_HOST: usize = 300;
/// Most bytes of any other name.
pub(super) const MOST_NAME: usize = 64;

// Of each block its hash, and at most a chain of its own with two numbers.
const _: () = assert!(MOST_BLOCKS * (8 + 2 + 3) + MOST_HOST < MOST_MESSAGE, "the most blocks fit");
// Of each event its id, a replica, four numbers, two hashes and a class with their tags and lengths, and
// of each replica its host and port.
const _: () = assert!(
    MOST_BLOCKS * 8 + MOST_EVENTS * 85 + MOST_NAMED * (MOST_HOST + 3) < MOST_MESSAGE,
    "the most events fit"
);
// Of each tenant a hash and two numbers, with their tags and a length.
const _: () = assert!(MOST_TENANTS * 40 < MOST_MESSAGE, "the most tenants fit");
// Of each line four numbers and a hash, with their tags and a length, and of each model its name.
const _: () = assert!(MOST_LINES * (40 + MOST_MODEL + 3) < MOST_MESSAGE, "the most lines fit");
// Of each model its name, with a tag and a length of two bytes.
const _: () = assert!(MOST_MODELS * (MOST_MODEL + 3) < MOST_MESSAGE, "the most models fit");

/// A broken limit or rule in a peer's message. The peer is faulty, or not a peer: the stream ends.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PeerError {
    /// Not a message of this protocol.
    #[error("the message cannot be read: {0}")]
    Unreadable(String),
    /// Too long.
    #[error("the message has {0} bytes, over {MOST_MESSAGE}")]
    Long(usize),
    /// Too many of something.
    #[error("{field}: {count} were sent; send at most {most}")]
    Many {
        /// The kind of thing.
        field: &'static str,
        /// The number received.
        count: usize,
        /// The limit.
        most: usize,
    },
    /// A value outside the field's range.
    #[error("{field}: {value} is not {allowed}")]
    Value {
        /// The field.
        field: &'static str,
        /// The value received.
        value: f64,
        /// The allowed values.
        allowed: &'static str,
    },
    /// The same replica twice in one message.
    #[error("{field}: replica {id} was sent twice")]
    Twice {
        /// The list.
        field: &'static str,
        /// The replica's id.
        id: u16,
    },
    /// News based on another version than the last one received.
    #[error("base: {base} was sent, and version {have} was the last")]
    Gap {
        /// The version it is based on.
        base: u64,
        /// The version last received; 0 for none.
        have: u64,
    },
    /// A version that does not increase.
    #[error("version: {version} follows {have}; versions count up")]
    Order {
        /// The version received.
        version: u64,
        /// The version last received.
        have: u64,
    },
    /// An invalid name.
    #[error(transparent)]
    Name(#[from] super::IdentityError),
    /// A name that is too long.
    #[error("{field}: {bytes} bytes, over {most}")]
    LongName {
        /// The field.
        field: &'static str,
        /// Its length.
        bytes: usize,
        /// The limit.
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

/// Checks the length of a name.
pub(super) fn name(field: &'static str, name: &str, most: usize) -> Result<(), PeerError> {
    let bytes = name.len();
    if bytes <= most { Ok(()) } else { Err(PeerError::LongName { field, bytes, most }) }
}

/// Checks that a value is from 0 to 1.
pub(super) fn share(field: &'static str, value: f32) -> Result<f32, PeerError> {
    check(field, value, (0.0..=1.0).contains(&value), "a share from 0 to 1")
}

/// Checks that a value is finite and not below 0.
pub(super) fn amount(field: &'static str, value: f32) -> Result<f32, PeerError> {
    check(field, value, value.is_finite() && value >= 0.0, "a finite number from 0")
}

/// Checks that a value is not below 0. Infinite means unknown or unlimited.
pub(super) fn open(field: &'static str, value: f32) -> Result<f32, PeerError> {
    check(field, value, value >= 0.0, "a number from 0")
}

/// Checks that a value is a number.
pub(super) fn number(field: &'static str, value: f32) -> Result<f32, PeerError> {
    check(field, value, !value.is_nan(), "a number")
}

/// Checks the id of a row.
pub(super) fn row(field: &'static str, value: u32) -> Result<u16, PeerError> {
    let no = PeerError::Value { field, value: f64::from(value), allowed: "an id below 65536" };
    u16::try_from(value).map_err(|_| no)
}
