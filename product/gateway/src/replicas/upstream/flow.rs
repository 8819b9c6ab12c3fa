//! The rest of an answer, as its reader polls it, and the end of its connection's use.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Frame;
use hyper::body::Incoming;

use super::Upstream;
use crate::replicas::dial::Dial;
use crate::replicas::http1::{Broken, Line};

/// A connection, and the pool to return it to after its answer.
pub(super) struct PooledLine {
    pub(super) line: Box<Line>,
    pub(super) upstream: Upstream,
    pub(super) replica: Arc<Dial>,
}

/// The rest of an answer. If dropped early, it closes the connection, which tells the engine that
/// the client is gone; for a peer's answer it resets the stream.
pub(crate) struct Flow(Source);

enum Source {
    Replica(PooledLine),
    /// A peer's connection has a task of its own.
    Peer(Incoming),
    /// It ended, and its connection is in the pool or closed.
    Over,
}

impl Flow {
    /// The rest of a replica's answer.
    pub(super) fn of_replica(kept: PooledLine) -> Flow {
        Flow(Source::Replica(kept))
    }

    /// The rest of a peer's answer.
    pub(crate) fn of_peer(body: Incoming) -> Flow {
        Flow(Source::Peer(body))
    }

    /// Gives the connection back after the last piece.
    fn end(&mut self) {
        if let Source::Replica(PooledLine { line, upstream, replica }) =
            std::mem::replace(&mut self.0, Source::Over)
            && line.is_reusable()
        {
            upstream.keep(&replica, line);
        }
    }
}

impl http_body::Body for Flow {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let kept = match &mut self.0 {
            Source::Replica(kept) => kept,
            Source::Peer(body) => {
                return Pin::new(body).poll_frame(cx).map_err(Broken::from);
            }
            Source::Over => return Poll::Ready(None),
        };
        let piece = ready!(kept.line.poll_piece(cx));
        if kept.line.is_over() || piece.is_none() {
            self.end();
        }
        Poll::Ready(piece.map(|piece| piece.map(Frame::data)))
    }

    /// For a peer's answer, the last byte may arrive before the stream's end: a client that knows
    /// the length will not poll for more.
    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Source::Replica(kept) => kept.line.is_over(),
            Source::Peer(body) => body.is_end_stream() || body.size_hint().exact() == Some(0),
            Source::Over => true,
        }
    }
}
