//! The page's stream: server-sent events, one a second.
//!
//! A slow reader misses events and holds up no other: each gets the newest state when it has taken
//! the last one, and the connection's own timeout ends a reader that takes nothing. Large states are
//! sent less often.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use meridian_protocol::admin::{PageState, Point, Snapshot};
use tokio::sync::mpsc;

use super::{Feed, SECOND};

/// A state larger than this many bytes is sent every other second, and so on.
const EASY: usize = 64 << 10;
/// The longest pause between two events, in seconds.
const LONGEST: usize = 10;

/// The body of an answer that is a stream of events.
pub(crate) struct Events(mpsc::Receiver<Bytes>);

/// A stream of the state; it ends when `still` no longer holds. None if too many pages are open.
pub(crate) fn events(
    feed: &Arc<Feed>,
    still: impl Fn() -> bool + Send + 'static,
) -> Option<Events> {
    let place = feed.places.clone().try_acquire_owned().ok()?;
    let (send, receive) = mpsc::channel(1);
    let (feed, mut state) = (feed.clone(), feed.state.subscribe());
    tokio::spawn(async move {
        let _place = place;
        let (mut now, mut since) = (Arc::new(feed.now()), 0);
        while still() {
            let (points, current) = {
                let history = feed.history.lock();
                (history.points(since), history.current())
            };
            since = current;
            let event = event(&now, points);
            let pause = (event.len() / EASY).min(LONGEST) as u32;
            if send.send(event).await.is_err() {
                return;
            }
            tokio::time::sleep(SECOND * pause).await;
            if state.changed().await.is_err() {
                return;
            }
            now = state.borrow_and_update().clone();
        }
    });
    Some(Events(receive))
}

fn event(state: &PageState, points: Vec<Point>) -> Bytes {
    let mut event = b"data: ".to_vec();
    let snapshot = Snapshot { state, points };
    serde_json::to_writer(&mut event, &snapshot).expect("numbers and strings always serialize");
    event.extend_from_slice(b"\n\n");
    event.into()
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|event| event.map(|bytes| Ok(Frame::data(bytes))))
    }
}
