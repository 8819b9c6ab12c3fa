//! Receives requests that a peer forwards.
//!
//! After its marks are removed, a forwarded request takes the same path as a client's: read in
//! full, decided, sent to a replica, relayed as it streams. Two things differ. The usage is
//! returned in trailers. A broken answer is a reset, without an event: the gateway that the client
//! is connected to writes the event.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{Request, Response, StatusCode};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use meridian_protocol::openai::Endpoint;
use meridian_protocol::peer::{Identity, Marks, usage_trailers};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::all::Peers;
use super::report::Report;
use super::traffic::{CountedForward, ForwardEnd};
use crate::refusal::{REFUSED, Refusal};

/// A forwarded request's marks, and its sender.
pub(crate) struct Forwarded {
    pub(crate) marks: Box<Marks>,
    pub(crate) report: Arc<Report>,
    pub(crate) from: Identity,
}

/// The handler of forwarded requests.
pub(crate) trait Forwards: Clone + Send + Sync + 'static {
    /// Body type of the answers.
    type Body: http_body::Body<Data = Bytes, Error: Into<BoxError>> + From<Bytes> + Send + Unpin;

    /// Most bytes of a request's headers.
    fn header_bytes(&self) -> usize;

    /// Answers one request.
    fn answer(
        &self,
        request: Request<Incoming>,
        forwarded: Forwarded,
    ) -> impl Future<Output = Response<Self::Body>> + Send;
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Serves a request that the gateway `from` forwarded.
pub(super) async fn take<F: Forwards>(
    forwards: &F,
    peers: &Peers,
    from: &Identity,
    mut request: Request<Incoming>,
) -> Response<Answering<F::Body>> {
    let length = request.headers().get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse().ok());
    let forward = peers.taken(from).begin(length.unwrap_or(0));
    let token = peers.inbound.token();
    let report = Arc::new(Report::default());
    let response = match Marks::take(request.headers_mut()) {
        Ok(marks) => {
            let (marks, report) = (Box::new(marks), report.clone());
            forwards.answer(request, Forwarded { marks, report, from: from.clone() }).await
        }
        Err(error) => {
            let refusal = Refusal::new(StatusCode::BAD_REQUEST, "not_a_forward", error.to_string());
            refusal.response(Endpoint::of(request.uri().path()))
        }
    };
    let refused = response.headers().contains_key(&REFUSED);
    let end = match response.status() {
        // The peer's replicas failed.
        StatusCode::BAD_GATEWAY if refused => ForwardEnd::Failed,
        _ if refused => ForwardEnd::Refused,
        status if status.is_success() => ForwardEnd::Done,
        _ => ForwardEnd::ClientError,
    };
    response.map(|body| Answering {
        body,
        forward: Some((forward, end)),
        report,
        over: false,
        _token: token,
    })
}

/// An answer on its way to the peer.
pub(crate) struct Answering<B> {
    body: B,
    /// How the forward ends when the body does.
    forward: Option<(CountedForward, ForwardEnd)>,
    report: Arc<Report>,
    over: bool,
    /// Delays the gateway's shutdown.
    _token: TaskTrackerToken,
}

impl<B> Answering<B> {
    fn end(&mut self, cut: bool) {
        if let Some((forward, end)) = self.forward.take() {
            forward.end(if cut { ForwardEnd::Failed } else { end });
        }
    }
}

impl<B: http_body::Body<Data = Bytes> + Unpin> http_body::Body for Answering<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = &mut *self;
        if this.over {
            return Poll::Ready(None);
        }
        Poll::Ready(match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
            Some(Ok(frame)) => {
                if let (Some((forward, ForwardEnd::Done)), Some(data)) =
                    (&this.forward, frame.data_ref())
                {
                    forward.answered(data.len());
                }
                Some(Ok(frame))
            }
            Some(Err(cut)) => {
                this.over = true;
                this.end(true);
                Some(Err(cut))
            }
            None => {
                this.over = true;
                this.end(false);
                this.report.get().map(|usage| Ok(Frame::trailers(usage_trailers(usage))))
            }
        })
    }

    /// Only at the very end: the trailers come last.
    fn is_end_stream(&self) -> bool {
        self.over
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
