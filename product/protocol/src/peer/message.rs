//! The messages of the stream, and their encoding.

use bytes::{Buf, BufMut};
use meridian_base::Holdings;
use prost::Message;

use super::bounds::{MOST_HOST, MOST_MESSAGE, MOST_MODEL, MOST_MODELS, PeerError, at_most, name};
use super::hello::Hello;
use super::holdings;
use super::news::News;
use super::proto::{self, ask, tell};
use super::siblings::SiblingBatch;

/// The path of the stream, in gRPC's form.
pub const FOLLOW: &str = "/meridian.peer.v1.Peer/Follow";

/// A path whose request bodies are read and discarded: bytes sent there open a new connection's
/// congestion window before the first request needs it.
pub const WARM: &str = "/meridian.peer.v1.Peer/Warm";

/// The field number of `Tell`'s news.
const NEWS: u8 = 3;
/// That of its records for siblings.
const SIBLINGS: u8 = 6;

/// Messages from the dialling gateway.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// The first message.
    Hello(Hello),
    /// To be echoed at once.
    Heartbeat(u64),
    /// Asks for at most this many queued requests.
    Steal(u32),
    /// Asks for the assumed cache contents of the replica with this host and port; from minor
    /// version 3 on.
    Holdings(String),
    /// A message that a newer peer added; ignored.
    Unknown,
}

/// Messages from the dialled gateway.
#[derive(Clone, Debug, PartialEq)]
pub enum Tell {
    /// The first message.
    Hello(Hello),
    /// The echo of a heartbeat.
    Echo(u64),
    /// The state of its region.
    News(News),
    /// All models that its replicas serve; from minor version 1 on.
    Models(Vec<String>),
    /// The assumed cache contents of the replica with this host and port, at most
    /// [`MOST_BLOCKS`](super::MOST_BLOCKS) blocks; from minor version 3 on.
    Holdings(String, Holdings),
    /// What happened to requests, for another gateway of its region; from minor version
    /// [`SIBLINGS_SINCE`](super::SIBLINGS_SINCE) on.
    Siblings(SiblingBatch),
    /// A message that a newer peer added; ignored.
    Unknown,
}

impl Ask {
    /// Writes the message.
    pub fn encode(&self, to: &mut impl BufMut) {
        let kind = match self {
            Ask::Hello(hello) => Some(ask::Kind::Hello(hello.into())),
            Ask::Heartbeat(stamp) => Some(ask::Kind::Heartbeat(heartbeat(*stamp))),
            Ask::Steal(count) => Some(ask::Kind::Steal(proto::Steal { count: *count })),
            Ask::Holdings(replica) => {
                Some(ask::Kind::Holdings(proto::OfReplica { replica: replica.clone() }))
            }
            Ask::Unknown => None,
        };
        write(&proto::Ask { kind }, to);
    }

    /// Reads a message.
    ///
    /// # Errors
    /// If it is not a message, or breaks a limit.
    pub fn decode(from: impl Buf) -> Result<Ask, PeerError> {
        Ok(match read::<proto::Ask>(from)?.kind {
            Some(ask::Kind::Hello(hello)) => Ask::Hello(hello.try_into()?),
            Some(ask::Kind::Heartbeat(heartbeat)) => Ask::Heartbeat(heartbeat.stamp),
            Some(ask::Kind::Steal(steal)) => Ask::Steal(steal.count),
            Some(ask::Kind::Holdings(proto::OfReplica { replica })) => {
                name("replica", &replica, MOST_HOST)?;
                Ask::Holdings(replica)
            }
            None => Ask::Unknown,
        })
    }
}

impl Tell {
    /// Writes the message.
    pub fn encode(&self, to: &mut impl BufMut) {
        let kind = match self {
            Tell::Hello(hello) => Some(tell::Kind::Hello(hello.into())),
            Tell::Echo(stamp) => Some(tell::Kind::Echo(heartbeat(*stamp))),
            Tell::News(news) => return news.write(NEWS, to),
            Tell::Models(names) => {
                let names = names.iter().filter(|name| name.len() <= MOST_MODEL);
                let names = names.take(MOST_MODELS).cloned().collect();
                Some(tell::Kind::Models(proto::Models { names }))
            }
            Tell::Holdings(replica, held) => {
                Some(tell::Kind::Holdings(holdings::write(replica, held)))
            }
            Tell::Siblings(batch) => return batch.write(SIBLINGS, to),
            Tell::Unknown => None,
        };
        write(&proto::Tell { kind }, to);
    }

    /// Reads a message.
    ///
    /// # Errors
    /// If it is not a message, or breaks a limit.
    pub fn decode(from: impl Buf) -> Result<Tell, PeerError> {
        Ok(match read::<proto::Tell>(from)?.kind {
            Some(tell::Kind::Hello(hello)) => Tell::Hello(hello.try_into()?),
            Some(tell::Kind::Echo(heartbeat)) => Tell::Echo(heartbeat.stamp),
            Some(tell::Kind::News(news)) => Tell::News(news.try_into()?),
            Some(tell::Kind::Models(proto::Models { names })) => {
                at_most("models", names.len(), MOST_MODELS)?;
                names.iter().try_for_each(|model| name("models", model, MOST_MODEL))?;
                Tell::Models(names)
            }
            Some(tell::Kind::Holdings(sent)) => {
                let (replica, held) = holdings::read(sent)?;
                Tell::Holdings(replica, held)
            }
            Some(tell::Kind::Siblings(sent)) => Tell::Siblings(SiblingBatch::read(sent)?),
            None => Tell::Unknown,
        })
    }
}

fn heartbeat(stamp: u64) -> proto::Heartbeat {
    proto::Heartbeat { stamp }
}

fn write(message: &impl Message, to: &mut impl BufMut) {
    message.encode(to).expect("the buffer grows");
}

fn read<M: Message + Default>(from: impl Buf) -> Result<M, PeerError> {
    if from.remaining() > MOST_MESSAGE {
        return Err(PeerError::Long(from.remaining()));
    }
    M::decode(from).map_err(|error| PeerError::Unreadable(error.to_string()))
}
