//! Calls on the side channel of another engine.

use super::network::Stream;
use super::wire::{self, Ask, KvAnswer, Op};
use super::{Remote, Shared};
use std::io::{ErrorKind, Result};
use std::time::Duration;

impl Shared {
    /// Connects, and tries again until it succeeds, as ZeroMQ does. The caller limits the time.
    pub(super) async fn connect(&self, remote: &Remote) -> Box<dyn Stream> {
        let pause = (self.handshake() / 20).max(Duration::from_millis(1));
        loop {
            match self.network.connect(&remote.host, remote.port).await {
                Ok(stream) => return stream,
                Err(error) => tracing::debug!(%error, "cannot connect to a side channel"),
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// Releases the blocks, read or not, so that the other engine need not wait for the end of the
    /// lease.
    pub(crate) async fn free(&self, remote: &Remote) {
        let call = async {
            let mut stream = self.connect(remote).await;
            ask(&mut *stream, (remote, &self.name), Op::Free).await
        };
        let done = tokio::time::timeout(self.handshake(), call).await;
        if !matches!(done, Ok(Ok(_))) {
            self.metrics().failed_notifications += 1;
        }
    }
}

/// Asks in the name of `from` for something of the request that `remote` names, and waits for the
/// answer.
pub(super) async fn ask(
    stream: &mut dyn Stream,
    (remote, from): (&Remote, &str),
    op: Op,
) -> Result<KvAnswer> {
    let ask = Ask {
        engine_id: remote.engine_id.clone(),
        request_id: remote.request_id.clone(),
        from: from.to_owned(),
        op,
    };
    wire::write(stream, &ask).await?;
    let answer = wire::read(stream).await?;
    answer.ok_or_else(|| ErrorKind::UnexpectedEof.into())
}
