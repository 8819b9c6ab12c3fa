//! The connection of one stream, in the form that tonic uses.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::Incoming;
use hyper::client::conn::http2;
use tonic::body::Body;
use tonic::client::GrpcService;

/// A connection.
pub(super) struct Connection {
    /// Ends with its stream.
    pub(super) task: tokio::task::JoinHandle<()>,
    /// Completes when the peer's certificate is revoked.
    pub(super) revoked: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The side of it that sends requests.
pub(super) struct Channel(pub(super) http2::SendRequest<Body>);

type SessionAnswer = Result<http::Response<Incoming>, hyper::Error>;

impl GrpcService<Body> for Channel {
    type ResponseBody = Incoming;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = SessionAnswer> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
