//! The connection for requests to a peer, if there is one. `keep_line.rs` keeps it open.

use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use tokio::time::Instant;

use super::error_chain::error_chain;
use crate::http::parts::Parts;
use crate::lock::{Mutex, MutexGuard};

/// The connection, if there is one.
#[derive(Debug)]
pub(super) struct Line(Mutex<KeptLineState>);

#[derive(Debug)]
struct KeptLineState {
    sender: Option<SendRequest<Parts>>,
    /// Time of the last change of state.
    since: Instant,
}

impl Default for Line {
    fn default() -> Line {
        Line(Mutex::new(KeptLineState { sender: None, since: Instant::now() }))
    }
}

/// Why a request got no answer head.
#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    #[error("there is no connection to the peer")]
    None,
    #[error("{}", error_chain(.0))]
    Broken(#[from] hyper::Error),
}

impl Line {
    fn state(&self) -> MutexGuard<'_, KeptLineState> {
        self.0.lock()
    }

    pub(super) fn is_open(&self) -> bool {
        self.state().sender.as_ref().is_some_and(|s| !s.is_closed())
    }

    /// How long there has been no connection.
    pub(super) fn down_for(&self) -> Duration {
        let state = self.state();
        if state.sender.is_some() { Duration::ZERO } else { state.since.elapsed() }
    }

    pub(super) fn set(&self, sender: Option<SendRequest<Parts>>) {
        let mut state = self.state();
        let replaces = state.sender.is_some() && sender.is_some();
        assert!(!replaces, "a second connection for requests is opened to one peer");
        *state = KeptLineState { sender, since: Instant::now() };
    }

    /// Sends a request and waits for the head of its answer. If dropped before that, the request is
    /// reset at the peer.
    pub(super) async fn send(
        &self,
        request: Request<Parts>,
    ) -> Result<Response<Incoming>, LineError> {
        let sender = self.state().sender.clone();
        let mut sender = sender.filter(|s| !s.is_closed()).ok_or(LineError::None)?;
        Ok(sender.send_request(request).await?)
    }
}
