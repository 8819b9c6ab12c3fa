//! The side channel between engines: frames of JSON, and after the answer to a read the KV.
//!
//! A frame is its length in four bytes, most significant first, and that many bytes of JSON. A
//! connection carries any number of requests, one after the other. It is a protocol of this engine
//! model; vLLM's is ZeroMQ, and RDMA for the KV.

use super::network::Stream;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{Error, ErrorKind, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A request on the side channel. `engine_id` and `request_id` are those of the params.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Ask {
    pub(super) engine_id: String,
    pub(super) request_id: String,
    /// The name of the engine that asks.
    #[serde(default)]
    pub(super) from: String,
    #[serde(flatten)]
    pub(super) op: Op,
}

/// What is asked.
#[derive(Debug, Deserialize, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(crate) enum Op {
    /// The KV of these blocks.
    Read { blocks: Vec<u32> },
    /// A longer lease.
    Renew,
    /// The blocks are not needed any more.
    Free,
}

/// The answer. After a granted read, `block_bytes` for each block follow.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct KvAnswer {
    pub(super) denied: Option<Denial>,
    pub(super) block_bytes: usize,
    /// The name of the engine that answers.
    #[serde(default)]
    pub(super) name: String,
}

/// Why a request on the side channel is not granted.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Denial {
    /// The engine has another id: it was restarted, or the params name another one.
    UnknownEngine,
    /// The request holds no blocks: it was released, or its lease expired.
    NotHeld,
    /// The request does not hold one of the blocks.
    UnknownBlock,
}

/// The longest frame: the ids of a million blocks.
const LONGEST: u32 = 8 << 20;

/// Writes a frame.
pub(super) async fn write(stream: &mut dyn Stream, message: &impl Serialize) -> Result<()> {
    let json = serde_json::to_vec(message)?;
    let length = u32::try_from(json.len()).map_err(|_| ErrorKind::InvalidInput)?;
    stream.write_u32(length).await?;
    stream.write_all(&json).await?;
    stream.flush().await
}

/// Reads a frame; `None` at the end of the connection.
pub(super) async fn read<T: DeserializeOwned>(stream: &mut dyn Stream) -> Result<Option<T>> {
    let length = match stream.read_u32().await {
        Ok(length) => length,
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    if length > LONGEST {
        return Err(Error::new(ErrorKind::InvalidData, "a frame of the side channel is too long"));
    }
    // It grows with what arrives, not with what is announced.
    let mut json = Vec::new();
    stream.take(u64::from(length)).read_to_end(&mut json).await?;
    if json.len() < length as usize {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(serde_json::from_slice(&json)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    // A frame that announces more than the longest is refused before anything is allocated, and
    // bytes that are not JSON are an error.
    #[tokio::test]
    async fn bad_frames_are_errors() {
        for bytes in [&[0xff, 0xff, 0xff, 0xff][..], &[0, 0, 0, 2, b'{', b'x']] {
            let (mut near, mut far) = tokio::io::duplex(64);
            near.write_all(bytes).await.unwrap();
            let read: Result<Option<Ask>> = read(&mut far).await;
            assert_eq!(read.unwrap_err().kind(), ErrorKind::InvalidData);
        }
    }
}
