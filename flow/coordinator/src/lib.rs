//! The flow coordinator's process: it hears of batches from all nodes of a cluster, and answers each
//! with one verdict on its order (MFS, section 5).
//!
//! One task owns the [machine](meridian_flow::Coordinator); a connection of a node is a task that
//! passes messages to it. Nodes that lose the coordinator, or a verdict, keep their own order, so
//! nothing here is stored and nothing is repeated.
//!
//! Deliberately not here: transfers, which never pass a coordinator.

mod batches;
mod driver;
mod names;
mod node;

use std::future::Future;

use meridian_flow::{Config, ConfigError};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};

use driver::Driver;

/// Most nodes at once.
const MOST_NODES: usize = 4096;
/// Messages that wait for the machine.
const QUEUE: usize = 4096;

/// Serves until `shutdown`.
///
/// # Errors
/// If the settings are not consistent.
pub async fn serve(
    listener: TcpListener,
    config: Config,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ConfigError> {
    let (events, inbox) = mpsc::channel(QUEUE);
    let driver = Driver::new(config)?;
    // In this task, so that a panic of the machine ends the process, and a supervisor starts it again.
    tokio::select! {
        () = accept(listener, events) => {}
        () = driver.run(inbox) => {}
        () = shutdown => {}
    }
    Ok(())
}

async fn accept(listener: TcpListener, events: mpsc::Sender<driver::Event>) {
    static PLACES: Semaphore = Semaphore::const_new(MOST_NODES);
    for number in 0.. {
        // The semaphore is never closed.
        let Ok(place) = PLACES.acquire().await else { return };
        match listener.accept().await {
            Ok((stream, address)) => {
                let events = events.clone();
                tokio::spawn(async move {
                    node::serve(number, stream, address, events).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a node's connection");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
}
