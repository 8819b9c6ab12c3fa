//! The task of one decode leg: it renews the lease, fetches the missing blocks once the engine has
//! KV for them, and releases them at the other engine.

use super::call::ask;
use super::network::Stream;
use super::wire::{Denial, Op};
use super::{Remote, Shared, content};
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

/// A decode leg, whose blocks another engine holds.
#[derive(Debug)]
pub(crate) struct Import {
    pub(crate) remote: Remote,
    /// The contents that its prompt's blocks must have.
    pub(crate) contents: Vec<u64>,
}

/// Why no KV came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchError {
    /// The other engine did not answer in time, or is not one that fits.
    Handshake,
    /// It does not have the blocks.
    Denied(Denial),
    /// The connection ended, or no byte came for a long time.
    Cut,
    /// The KV was not that of the prompt.
    Wrong,
}

impl FetchError {
    /// Whether the other engine can be told that the blocks are not needed.
    fn leaves_blocks(self) -> bool {
        match self {
            FetchError::Handshake | FetchError::Cut => false,
            FetchError::Denied(denial) => denial != Denial::UnknownEngine,
            FetchError::Wrong => true,
        }
    }
}

impl Import {
    /// Starts the task. It waits for the number of leading blocks that need not be fetched, and
    /// reports the end of the fetch. Once the sender is dropped, it stops and releases the blocks.
    pub(crate) fn start(
        self,
        shared: Arc<Shared>,
        report: impl FnOnce(Result<(), FetchError>) + Send + 'static,
    ) -> mpsc::Sender<u32> {
        let (sender, orders) = mpsc::channel(1);
        tokio::spawn(self.run(shared, orders, report));
        sender
    }

    async fn run(
        self,
        shared: Arc<Shared>,
        mut orders: mpsc::Receiver<u32>,
        report: impl FnOnce(Result<(), FetchError>) + Send,
    ) {
        let work = async {
            let cached = orders.recv().await?;
            tokio::select! {
                biased;
                _ = orders.recv() => None,
                result = self.fetch(&shared, cached as usize) => Some(result),
            }
        };
        let result = tokio::select! {
            result = work => result,
            never = shared.keep(&self.remote) => never,
        };
        if let Some(result) = result {
            self.count(&shared, result);
            report(result);
        }
        if !matches!(result, Some(Err(error)) if !error.leaves_blocks()) {
            shared.free(&self.remote).await;
        }
    }

    fn count(&self, shared: &Shared, result: Result<(), FetchError>) {
        match result {
            Ok(()) => {}
            Err(FetchError::Wrong) => {
                tracing::warn!(
                    "KV of another prompt arrived: the params of a prefill's answer fit \
                                only the same prompt"
                );
                shared.metrics().mismatches += 1;
            }
            Err(error) => {
                tracing::warn!(?error, host = %self.remote.host, port = self.remote.port,
                               "cannot fetch KV");
                shared.metrics().failed_transfers += 1;
            }
        }
    }

    /// Fetches all blocks after the first `cached`.
    async fn fetch(&self, shared: &Shared, cached: usize) -> Result<(), FetchError> {
        if self.remote.engine_id == shared.engine_id {
            // As vLLM, which can't register itself and waits.
            tokio::time::sleep(shared.handshake()).await;
            return Err(FetchError::Handshake);
        }
        let contents = &self.contents[cached..];
        let blocks = self.remote.blocks[cached..self.contents.len()].to_vec();
        let call = async {
            let mut stream = shared.connect(&self.remote).await;
            let answer = ask(&mut *stream, (&self.remote, &shared.name), Op::Read { blocks }).await;
            answer.map(|answer| (stream, answer))
        };
        let (mut stream, answer) = match timeout(shared.handshake(), call).await {
            Ok(Ok(answered)) => answered,
            Ok(Err(_)) => return Err(FetchError::Cut),
            Err(_) => return Err(FetchError::Handshake),
        };
        if let Some(denial) = answer.denied {
            return Err(FetchError::Denied(denial));
        }
        if answer.block_bytes != shared.block_bytes {
            // Another model, or another scale.
            return Err(FetchError::Handshake);
        }
        let start = Instant::now();
        let bytes = shared.model_bytes * contents.len() as f64;
        let passing = shared.into.begin(bytes, shared.routes.from.get(&answer.name));
        receive(&mut *stream, contents, shared).await?;
        passing.over().await;
        let from = Some(answer.name).filter(|name| shared.routes.from.contains_key(name));
        shared.metrics().transferred(from, start.elapsed().as_secs_f64(), bytes);
        Ok(())
    }
}

/// Receives the blocks and compares them with those of the prompt.
async fn receive(
    stream: &mut dyn Stream,
    contents: &[u64],
    shared: &Shared,
) -> Result<(), FetchError> {
    let mut bytes = vec![0; shared.block_bytes];
    let mut wrong = false;
    for content in contents {
        let block = timeout(shared.stalled(), stream.read_exact(&mut bytes)).await;
        if !matches!(block, Ok(Ok(_))) {
            return Err(FetchError::Cut);
        }
        shared.metrics().received += bytes.len() as u64;
        wrong |= bytes != content::block(*content, shared.block_bytes);
    }
    if wrong { Err(FetchError::Wrong) } else { Ok(()) }
}
