//! Taking in what a peer sends on.
//!
//! It goes through the same hands as a client's request, once its marks are off: read whole,
//! decided about, sent to a replica, relayed as it comes. What differs is what comes back beside
//! the answer (the usage, in trailers) and that a broken answer is a reset and no event: the
//! gateway that the client came to writes the event.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{Request, Response, StatusCode};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use meridian_wire::openai::{Endpoint, Usage};
use meridian_wire::peer::{Identity, Marks, usage_trailers};
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::Peers;
use super::traffic::{Leg, LegEnd};
use crate::http::headers::REFUSED;
use crate::http::refusal::Refusal;
use crate::request::body::{AnswerBody, CutShort};
use crate::request::entry;
use crate::request::origin::Origin;
use crate::worker::Worker;

/// What is said of an answer beside it.
#[derive(Debug, Default)]
pub(crate) struct Report(OnceLock<Usage>);

impl Report {
    pub(crate) fn set(&self, usage: Usage) {
        // An answer has one end.
        let _ = self.0.set(usage);
    }
}

/// Serves a request that the gateway `from` sent on.
pub(super) async fn take(
    worker: Arc<Worker>,
    peers: &Peers,
    from: &Identity,
    mut request: Request<Incoming>,
) -> Response<Answering> {
    let length = request.headers().get(CONTENT_LENGTH).and_then(|v| v.to_str().ok()?.parse().ok());
    let leg = peers.taken(from).begin(length.unwrap_or(0));
    let token = peers.inbound.token();
    let report = Arc::new(Report::default());
    let response = match Marks::take(request.headers_mut()) {
        Ok(marks) => {
            let marks = Box::new(marks);
            let origin = Origin::Peer { marks, report: report.clone(), from: from.clone() };
            entry::answer(worker, request, origin).await
        }
        Err(error) => {
            let refusal = Refusal::new(StatusCode::BAD_REQUEST, "not_a_forward", error.to_string());
            refusal.response(Endpoint::of(request.uri().path()))
        }
    };
    let refused = response.headers().contains_key(&REFUSED);
    let end = match response.status() {
        // Its replicas failed.
        StatusCode::BAD_GATEWAY if refused => LegEnd::Failed,
        _ if refused => LegEnd::Refused,
        status if status.is_success() => LegEnd::Done,
        _ => LegEnd::ClientError,
    };
    response.map(|body| Answering {
        body,
        leg: Some((leg, end)),
        report,
        over: false,
        _token: token,
    })
}

/// An answer on its way to the peer.
pub(crate) struct Answering {
    body: AnswerBody,
    /// And how it ends when its body does.
    leg: Option<(Leg, LegEnd)>,
    report: Arc<Report>,
    over: bool,
    /// Keeps the gateway from going down.
    _token: TaskTrackerToken,
}

impl Answering {
    fn end(&mut self, cut: bool) {
        if let Some((leg, end)) = self.leg.take() {
            leg.end(if cut { LegEnd::Failed } else { end });
        }
    }
}

impl http_body::Body for Answering {
    type Data = Bytes;
    type Error = CutShort;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutShort>>> {
        let this = &mut *self;
        if this.over {
            return Poll::Ready(None);
        }
        Poll::Ready(match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
            Some(Ok(frame)) => {
                if let (Some((leg, LegEnd::Done)), Some(data)) = (&this.leg, frame.data_ref()) {
                    leg.answered(data.len());
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
                this.report.0.get().map(|usage| Ok(Frame::trailers(usage_trailers(usage))))
            }
        })
    }

    /// Only once everything is out: the trailers come last.
    fn is_end_stream(&self) -> bool {
        self.over
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
