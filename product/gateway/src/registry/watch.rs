//! Keeps the view of the registry up to date: reads it in full once, then applies every change.
//!
//! A broken connection is resumed after the last revision received. The whole registry is read
//! again only if the control plane can't resume, because its history is too short or its store is
//! another one. A watch also resumes at another control plane of the same store.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use meridian_protocol::registry::{Beat, Snapshot, Update};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::ask::{Answer, read_body};
use super::following::{Following, Task};
use super::lease::patience;
use super::lost::Lost;
use super::pauses::Pauses;

/// The control plane sends something every second; after this much silence the connection counts as
/// broken.
const SILENCE: Duration = Duration::from_secs(4);
/// Longest event, bytes.
const MOST_EVENT: usize = 16 << 20;

/// Keeps the view up to date; never returns.
pub(super) async fn keep(following: Arc<Following>) {
    let mut pauses = following.pauses(2);
    let planes = &following.control.planes;
    loop {
        let at = planes.used();
        let why = tokio::select! {
            Err(why) = follow(&following, at, &mut pauses) => why,
            // A renewal of the lease has failed there. Waiting for the watch to fail as well could
            // take seconds, and a control plane without its store may even keep sending beats.
            () = planes.moved(at) => {
                following.leaves_watch();
                continue;
            }
        };
        following.failed(Task::Watch, at, &why, &mut pauses);
        pauses.pause().await;
    }
}

/// Follows the control plane at `at` until the connection breaks.
async fn follow(
    following: &Following,
    at: usize,
    pauses: &mut Pauses,
) -> Result<std::convert::Infallible, Lost> {
    // A view from a file is not a base for updates.
    let mut view = match following.heard() {
        Some((view, _)) => view,
        None => read(following, at).await?,
    };
    let mut watch = match begin(following, at, &view).await {
        Err(Lost::Refused { status: 409, .. }) => {
            view = read(following, at).await?;
            begin(following, at, &view).await?
        }
        watch => watch?,
    };
    loop {
        let event = watch.event().await?;
        match event.name.as_str() {
            "beat" => {
                let beat: Beat = event.read()?;
                if beat.store == view.store {
                    // The revisions in between contain nothing that gateways follow.
                    if beat.revision > view.revision {
                        let revision = beat.revision;
                        view = Arc::new(Snapshot { revision, ..Snapshot::clone(&view) });
                    }
                    following.hear(&view, false);
                }
                following.did(Task::Watch);
                pauses.begin_anew();
            }
            "update" => {
                let update: Update = event.read()?;
                let mut next = Snapshot::clone(&view);
                next.apply(update);
                view = Arc::new(next);
                following.hear(&view, true);
            }
            "again" => {
                view = read(following, at).await?;
                watch = begin(following, at, &view).await?;
            }
            _ => {}
        }
    }
}

/// Reads the whole registry.
async fn read(following: &Following, at: usize) -> Result<Arc<Snapshot>, Lost> {
    let limit = patience(following);
    let snapshot =
        following.control.ask(at, Method::GET, "/admin/registry", Bytes::new(), limit).await?;
    let view: Arc<Snapshot> = Arc::new(snapshot);
    let before = following.hear(&view, true);
    if before.is_some_and(|before| before.store != view.store) {
        tracing::warn!(
            store = view.store,
            revision = view.revision,
            "the control plane has a different store; replicas that it does not know stay unchanged"
        );
    }
    Ok(view)
}

async fn begin(following: &Following, at: usize, view: &Snapshot) -> Result<Events, Lost> {
    let path = format!("/admin/watch?from={}&store={}", view.revision + 1, view.store);
    let limit = patience(following);
    let answer = following.control.open(at, Method::GET, &path, Bytes::new(), limit).await?;
    if answer.status == 200 {
        return Ok(Events { answer, buffer: Vec::new() });
    }
    let Answer { status, body, .. } = answer;
    let refused = timeout(limit, read_body(status, body)).await.map_err(|_| Lost::Late(limit))?;
    Err(refused.err().unwrap_or(Lost::Closed))
}

/// The events of a watch.
struct Events {
    answer: Answer,
    buffer: Vec<u8>,
}

/// One event.
struct Event {
    name: String,
    data: String,
}

impl Event {
    fn read<T: DeserializeOwned>(&self) -> Result<T, Lost> {
        serde_json::from_str(&self.data).map_err(|error| Lost::Form(error.to_string()))
    }
}

impl Events {
    async fn event(&mut self) -> Result<Event, Lost> {
        loop {
            if let Some(event) = split(&mut self.buffer)? {
                return Ok(event);
            }
            let piece = timeout(SILENCE, piece(&mut self.answer.body)).await;
            let piece = piece.map_err(|_| Lost::Silent)??;
            if self.buffer.len() + piece.len() > MOST_EVENT {
                return Err(Lost::Form(format!("an event is longer than {MOST_EVENT} bytes")));
            }
            self.buffer.extend_from_slice(&piece);
        }
    }
}

async fn piece(body: &mut Incoming) -> Result<Bytes, Lost> {
    let frame = body.frame().await.ok_or(Lost::Closed)??;
    Ok(frame.into_data().unwrap_or_default())
}

/// Removes the first complete event from the buffer.
fn split(buffer: &mut Vec<u8>) -> Result<Option<Event>, Lost> {
    let Some(end) = memchr::memmem::find(buffer, b"\n\n") else { return Ok(None) };
    let rest = buffer.split_off(end + 2);
    let event = std::mem::replace(buffer, rest);
    let text = str::from_utf8(&event).map_err(|error| Lost::Form(error.to_string()))?;
    let field = |name: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(name));
        found.unwrap_or_default().trim_start().to_owned()
    };
    Ok(Some(Event { name: field("event:"), data: field("data:") }))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Events are split at their ends, however they arrive; a comment has neither name nor data.
    #[test]
    fn events_are_split() {
        let mut buffer = b"event: beat\nid: 3\ndata: {}\n\n: hi\n\nevent: up".to_vec();
        let mut next = || split(&mut buffer).unwrap().map(|event| (event.name, event.data));
        assert_eq!(next(), Some(("beat".to_owned(), "{}".to_owned())));
        assert_eq!(next(), Some((String::new(), String::new())));
        assert_eq!(next(), None);
        assert!(split(&mut b"event: \xff\n\n".to_vec()).is_err());
    }
}
