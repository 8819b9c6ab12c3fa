//! `GET /admin/watch`: every change of the registry, as server-sent events.
//!
//! The first event is a `beat`, which names the store and the revision from which the events count.
//! An `update` is one revision. Further beats say that nothing else happened, so silence means that
//! the connection is broken. A follower that reconnects names the revision to resume from. If the
//! history does not reach back that far, or the store is another one, it has to read the registry
//! again.
//!
//! Observations of replicas are not included: every probe would cause an event. The events' ids are
//! revisions, so a browser resumes automatically.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use meridian_protocol::admin::Query;
use meridian_protocol::registry::{Beat, Change, Update};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_stream::wrappers::ReceiverStream;

use super::Shared;
use super::answer::{Answered, Body, Refusal, typed};
use crate::Error;
use crate::chosen::ChosenWatch;
use crate::registry::{Key, Kind, followed};
use crate::store::{Batch, Event, Revision, Store, Watch};

/// Interval between two beats.
const BEAT: Duration = Duration::from_secs(1);
/// Most events in transit to a follower; further ones wait.
const QUEUE: usize = 16;
/// How long a follower may leave its events unread.
const UNREAD: Duration = Duration::from_secs(10);
/// Most followers at once.
const MOST: usize = 4096;

type Piece = Result<Frame<Bytes>, Infallible>;

/// Starts the watch that `query` requests.
pub(super) async fn begin(shared: &Arc<Shared>, query: &Query, last: Option<&str>) -> Answered {
    let (head, _) = shared.registry.head().await?;
    let from = from(query, last, head)?;
    let mut identity = shared.identity.subscribe();
    let store = identity.borrow_and_update().name.clone();
    let other = query.text("store").is_some_and(|asked| *asked != store);
    if other || from > head.next() {
        let message = format!(
            "this store is {store} at revision {head}; read /admin/registry again and watch from there"
        );
        return Err(Refusal::new(StatusCode::CONFLICT, "other_store", message));
    }
    let place = WatchPlace::take(&shared.followers).ok_or_else(|| {
        let message = format!("{MOST} watches are open already; retry later");
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_followers", message)
    })?;
    let (send, receive) = mpsc::channel(QUEUE);
    let follower = Follower {
        watch: shared.registry.store().watch(&followed(), from),
        store,
        sent: Revision(from.0.saturating_sub(1)),
        send,
    };
    let over = shared.over.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = follower.tell() => {}
            // The store has another name, or does not answer: the follower has to ask again.
            _ = identity.changed() => {}
            () = over.cancelled() => {}
        }
        drop(place);
    });
    Ok(stream(receive))
}

fn stream(receive: mpsc::Receiver<Piece>) -> Response<Body> {
    let body = StreamBody::new(ReceiverStream::new(receive)).boxed_unsync();
    typed(body, "text/event-stream")
}

/// The first requested revision: the one after the last event's, else `from`, else the next.
fn from(query: &Query, last: Option<&str>, head: Revision) -> Result<Revision, Refusal> {
    let number = |what: &str, text: &str| {
        text.parse().map(Revision).map_err(|_| {
            let shown: String = text.chars().take(40).collect();
            let message = format!("{what}: `{shown}` is not a revision; use a whole number");
            Refusal::bad("invalid_revision", message)
        })
    };
    match (last, query.text("from")) {
        (Some(last), _) => Ok(number("Last-Event-ID", last)?.next()),
        (None, Some(from)) => number("from", from),
        (None, None) => Ok(head.next()),
    }
}

struct Follower {
    watch: ChosenWatch,
    store: String,
    /// Everything up to here was sent, or is irrelevant for followers.
    sent: Revision,
    send: mpsc::Sender<Piece>,
}

impl Follower {
    /// Sends events until the follower is gone or has to read the registry again.
    async fn tell(mut self) {
        if self.beat().await.is_none() {
            return;
        }
        let mut due = Instant::now() + BEAT;
        loop {
            let next = tokio::select! {
                next = timeout_at(due, self.watch.next()) => next,
                () = self.send.closed() => return,
            };
            let sent = match next {
                Ok(Ok(batch)) => self.news(&batch).await,
                Ok(Err(error)) => return self.end(&error).await,
                Err(_) => self.beat().await,
            };
            if sent.is_none() {
                return;
            }
            due = Instant::now() + BEAT;
        }
    }

    async fn beat(&mut self) -> Option<()> {
        let beat = Beat { store: self.store.clone(), revision: self.sent.0 };
        self.event("beat", &beat).await
    }

    async fn news(&mut self, batch: &Batch) -> Option<()> {
        assert!(self.sent < batch.revision, "a follower gets each revision once, in order");
        self.sent = batch.revision;
        let changes: Vec<_> = batch.events.iter().filter_map(change).collect();
        if changes.is_empty() {
            return Some(());
        }
        self.event("update", &Update { revision: batch.revision.0, changes }).await
    }

    /// The watch can't continue: the follower has to read the registry again.
    async fn end(&mut self, error: &Error) {
        let _ = self.event("again", &error.to_string()).await;
    }

    async fn event(&mut self, name: &str, data: &impl serde::Serialize) -> Option<()> {
        let data = serde_json::to_string(data).expect("keys are strings, numbers are finite");
        let text = format!("event: {name}\nid: {}\ndata: {data}\n\n", self.sent);
        // One that does not read is dropped: its watch holds a part of what the store can send.
        timeout(UNREAD, self.send.send(Ok(Frame::data(text.into())))).await.ok()?.ok()
    }
}

/// The event for followers; a record that can't be read counts as removed.
fn change(event: &Event) -> Option<Change> {
    let (key, value) = match event {
        Event::Put(entry) => (entry.key.as_str(), Some(entry.value.as_slice())),
        Event::Deleted(key) => (key.as_str(), None),
    };
    let key = Key::parse(key)?;
    let name = key.name().to_owned();
    match key.kind() {
        Kind::Region => Some(Change::Region { name, record: value.and_then(record) }),
        Kind::Replica => Some(Change::Replica { name, record: value.and_then(record) }),
        Kind::Gateway => Some(Change::Gateway { name, record: value.and_then(record) }),
        Kind::Load | Kind::Seen => None,
    }
}

fn record<R: DeserializeOwned>(value: &[u8]) -> Option<R> {
    serde_json::from_slice(value).ok()
}

/// One of a limited number of followers, returned when dropped.
struct WatchPlace(Arc<AtomicUsize>);

impl WatchPlace {
    fn take(count: &Arc<AtomicUsize>) -> Option<WatchPlace> {
        let more = |n: usize| (n < MOST).then_some(n + 1);
        count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(WatchPlace(count.clone()))
    }
}

impl Drop for WatchPlace {
    fn drop(&mut self) {
        let before = self.0.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "a follower's place is given back once");
    }
}
