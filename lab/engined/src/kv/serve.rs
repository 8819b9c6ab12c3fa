//! The side channel's server: other engines read, renew and release held blocks.

use super::blocks::write;
use super::network::{Listener, Stream};
use super::shared::CHUNK;
use super::wire::{self, Ask, Denial, KvAnswer, Op};
use super::{Read, Shared, gated};
use crate::pump::Command;
use std::io::Result;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

/// Most connections at once; further ones wait.
const MOST_CONNECTIONS: usize = 8192;

/// Serves until the sender of `alive` is dropped.
pub(crate) async fn listen(
    mut listener: Listener,
    shared: Arc<Shared>,
    commands: mpsc::WeakUnboundedSender<Command>,
    mut alive: watch::Receiver<()>,
) {
    let connections = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let accept = async {
            // The semaphore is never closed, so a permit always comes.
            let permit = connections.clone().acquire_owned().await.ok();
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            _ = alive.changed() => return,
            accepted = accept => accepted,
        };
        match accepted {
            Ok(mut stream) => {
                let (shared, commands, mut alive) =
                    (shared.clone(), commands.clone(), alive.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        _ = alive.changed() => {}
                        result = serve(&mut *stream, &shared, &commands) => {
                            if let Err(error) = result {
                                tracing::debug!(%error, "a side channel connection ended");
                            }
                        }
                    }
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection on the side channel");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn serve(
    stream: &mut dyn Stream,
    shared: &Shared,
    commands: &mpsc::WeakUnboundedSender<Command>,
) -> Result<()> {
    while let Some(Ask { engine_id, request_id, from, op }) = wire::read(stream).await? {
        let known = engine_id == shared.engine_id;
        let result = match known {
            true => match carry_out(request_id.clone(), op, commands).await {
                Some(result) => result,
                // The engine has stopped.
                None => return Ok(()),
            },
            false => Err(Denial::UnknownEngine),
        };
        let denied = result.as_ref().err().copied();
        let name = shared.name.clone();
        let answer = KvAnswer { denied, block_bytes: shared.block_bytes, name };
        wire::write(stream, &answer).await?;
        let read = result.unwrap_or_default();
        match &shared.gate {
            Some(gate) => gated::send(gate, stream, (&request_id, &read), shared).await?,
            None => send(stream, (&from, &read.contents), shared).await?,
        }
    }
    Ok(())
}

/// Passes a request to the engine, which returns the blocks to send.
async fn carry_out(
    request: String,
    op: Op,
    commands: &mpsc::WeakUnboundedSender<Command>,
) -> Option<std::result::Result<Read, Denial>> {
    let (reply, result) = oneshot::channel();
    commands.upgrade()?.send(Command::Remote { request, op, reply }).ok()?;
    result.await.ok()
}

/// Sends blocks to the engine of this name, at the rate of the way there.
async fn send(
    stream: &mut dyn Stream,
    (to, contents): (&str, &[u64]),
    shared: &Shared,
) -> Result<()> {
    if contents.is_empty() {
        return Ok(());
    }
    let bytes = shared.model_bytes * contents.len() as f64;
    let passing = shared.out.begin(bytes, shared.routes.to.get(to));
    let mut sent = 0;
    for chunk in contents.chunks(CHUNK) {
        sent += chunk.len();
        passing.passed(shared.model_bytes * sent as f64).await;
        write(stream, chunk, shared).await?;
    }
    Ok(())
}
