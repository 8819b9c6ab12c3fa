//! Watches, which outlive their members.
//!
//! A task receives what etcd sends and keeps a few batches ready. If its member fails, it resumes on
//! another one after the last revision that it received. A member that is silent is asked for a sign of
//! life: a stopped process keeps its connections open.

use std::sync::Arc;

use etcd_client::{Event as EtcdEvent, EventType, WatchOptions, WatchResponse, WatchStream};
use meridian_base::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::convert::{Failed, entry, key, number};
use super::{MOST_ANSWER, Shared};
use crate::Error;
use crate::store::{Batch, Event, Keys, Revision, Watch};

/// Batches that are ready for a reader; etcd keeps further ones.
const QUEUE: usize = 64;
/// After so much silence the member is asked for a sign of life, and so long later it counts as lost.
const SILENCE: Duration = Duration::from_secs(1);
/// Signs of life that may be missing.
const MISSING: u32 = 3;
/// Pause after a watch that failed.
const PAUSE: Duration = Duration::from_millis(100);

/// A watch of etcd.
pub struct EtcdWatch {
    batches: mpsc::Receiver<Result<Batch, Error>>,
    task: JoinHandle<()>,
}

impl EtcdWatch {
    pub(super) fn new(shared: Arc<Shared>, keys: &Keys, from: Revision) -> EtcdWatch {
        let (send, batches) = mpsc::channel(QUEUE);
        let next = from.max(Revision(1));
        let reader = Reader { shared, keys: keys.clone(), next, before: 1, send };
        EtcdWatch { batches, task: tokio::spawn(reader.run()) }
    }
}

impl Drop for EtcdWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watch for EtcdWatch {
    async fn next(&mut self) -> Result<Batch, Error> {
        let closed = || Error::Failed("the watch has ended".to_owned());
        self.batches.recv().await.unwrap_or_else(|| Err(closed()))
    }
}

struct Reader {
    shared: Arc<Shared>,
    keys: Keys,
    /// The first revision that was not received.
    next: Revision,
    /// How many revisions before it the watch begins.
    before: u64,
    send: mpsc::Sender<Result<Batch, Error>>,
}

/// Why a watch ended.
enum End {
    /// The member failed.
    Member(Failed),
    /// It began too early.
    Early,
    /// The watch cannot continue.
    Final(Error),
    /// Its reader is gone.
    Unread,
}

impl From<etcd_client::Error> for End {
    fn from(error: etcd_client::Error) -> End {
        let failed = Failed::sent(error);
        if failed.is_of_member() { End::Member(failed) } else { End::Final(failed.into()) }
    }
}

impl From<Error> for End {
    fn from(error: Error) -> End {
        End::Final(error)
    }
}

impl Reader {
    async fn run(mut self) {
        loop {
            let (at, client) = self.shared.members.client().await;
            let end = match client {
                Ok(client) => {
                    let watch = client.watch_client().max_decoding_message_size(MOST_ANSWER);
                    match self.read(watch).await {
                        Ok(never) => never,
                        Err(end) => end,
                    }
                }
                Err(failed) => End::Member(failed),
            };
            match end {
                End::Member(failed) => {
                    self.shared.members.leave(at, &failed);
                    sleep(PAUSE).await;
                }
                End::Early => {}
                End::Final(error) => return drop(self.send.send(Err(error)).await),
                End::Unread => return,
            }
        }
    }

    /// Reads until the watch ends.
    async fn read(&mut self, mut client: etcd_client::WatchClient) -> Result<End, End> {
        let prefix = &self.shared.prefix;
        // From one revision earlier, which it does not show again: a member gives no sign of life to a
        // watch that begins in the future.
        let from = self.next.0.saturating_sub(self.before).max(1);
        let from = i64::try_from(from).unwrap_or(i64::MAX);
        let options = WatchOptions::new().with_start_revision(from);
        let (start, end) = self.keys.range(prefix);
        let options = options.with_range(end);
        let late = || End::Member(Failed::late(SILENCE * (1 + MISSING)));
        let opened = timeout(SILENCE * (1 + MISSING), client.watch(start, Some(options))).await;
        let mut stream = opened.map_err(|_| late())??;
        let mut missing = 0;
        loop {
            match timeout(SILENCE, stream.message()).await {
                Ok(answer) => {
                    missing = 0;
                    let Some(answer) = answer? else { return Ok(End::Member(closed())) };
                    self.take(&answer).await?;
                }
                Err(_) if missing == MISSING => return Ok(late()),
                Err(_) => {
                    missing += 1;
                    ask(&mut stream).await?;
                }
            }
        }
    }

    async fn take(&mut self, answer: &WatchResponse) -> Result<(), End> {
        if answer.compact_revision() > 0 {
            let oldest = number(answer.compact_revision());
            if oldest <= self.next && self.before > 0 {
                self.before = 0;
                return Err(End::Early);
            }
            return Err(End::Final(Error::Compacted { asked: self.next, oldest }));
        }
        if answer.canceled() {
            let why = answer.cancel_reason().to_owned();
            return Err(if why.contains("permission") {
                End::Final(Error::Denied(why))
            } else {
                End::Member(Failed::not_sent(etcd_client::Error::WatchError(why)))
            });
        }
        for batch in batches(&self.shared.prefix, answer.events())? {
            // The earlier one, and some versions send a revision again after a reconnect.
            if batch.revision < self.next {
                continue;
            }
            (self.next, self.before) = (batch.revision.next(), 1);
            self.send.send(Ok(batch)).await.map_err(|_| End::Unread)?;
        }
        Ok(())
    }
}

async fn ask(stream: &mut WatchStream) -> Result<(), End> {
    Ok(stream.request_progress().await?)
}

fn closed() -> Failed {
    Failed::not_sent(etcd_client::Error::WatchError("the member closed the watch".to_owned()))
}

/// One batch for each revision. An answer holds whole revisions.
fn batches(prefix: &str, events: &[EtcdEvent]) -> Result<Vec<Batch>, Error> {
    let mut batches: Vec<Batch> = Vec::new();
    for one in events {
        let Some(kv) = one.kv() else { continue };
        let revision = number(kv.mod_revision());
        let event = match one.event_type() {
            EventType::Put => Event::Put(entry(prefix, kv)?),
            EventType::Delete => Event::Deleted(key(prefix, kv)?),
        };
        match batches.last_mut() {
            Some(batch) if batch.revision == revision => batch.events.push(event),
            _ => batches.push(Batch { revision, events: vec![event] }),
        }
    }
    Ok(batches)
}
