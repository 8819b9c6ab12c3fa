//! Blocks of KV as bytes on a connection.

use super::network::Stream;
use super::{Shared, content};
use std::io::Result;
use tokio::io::AsyncWriteExt;

/// Writes the bytes of some blocks.
pub(super) async fn write(stream: &mut dyn Stream, blocks: &[u64], shared: &Shared) -> Result<()> {
    for block in blocks {
        let bytes = content::block(*block, shared.block_bytes);
        stream.write_all(&bytes).await?;
        shared.metrics().sent += bytes.len() as u64;
    }
    stream.flush().await
}
