//! Connections to replicas: pooled, with TCP_NODELAY, and closed to cancel a request.
//!
//! A connection has no task of its own. The reader of an answer polls the connection that delivers
//! it, so a piece of an answer goes from socket to socket within one poll: no task is woken, and
//! pieces that arrived together leave together. Compared with a pool that has a task per
//! connection, this halves the CPU time of a streamed answer.
//!
//! A pooled connection must be silent. An unsolicited answer would be taken for the next request's,
//! so the socket is checked before it is used again. A task closes connections that were idle for a
//! while.
//!
//! Opening a connection takes a round trip. Within a region that is negligible; to another region
//! it takes as long again as the first token travels. Some connections are therefore kept ready
//! there, in addition to those in use, and all are used in turn so that none is idle until it is
//! closed.

mod errors;

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HOST, HeaderValue};
use http::{HeaderMap, Method, Request, StatusCode, response, uri::Authority};
use http_body::Frame;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Connection, SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::cause;
use crate::error::{AttemptError, Fault};
use crate::http::headers::API_KEY;
use crate::http::parts::Parts;
use crate::lock::Mutex;
use crate::patience::Patience;
use crate::replicas::dial::Dial;
use crate::replicas::socket::{Look, Wire};
use errors::{describe, no_head};
pub(crate) use errors::{is_cut, late};

/// Idle time after which a connection is closed: below the 5 s of uvicorn (vLLM, SGLang) and
/// cpp-httplib (llama.cpp), so a request rarely meets a connection that is just being closed.
const KEEP: Duration = Duration::from_secs(4);
/// Interval between two searches for idle connections.
const SWEEP: Duration = Duration::from_secs(1);
/// Connections kept ready to each replica of another region.
const READY: usize = 2;
/// Largest status page read, bytes: vLLM's metrics with many LoRA labels stay well below.
const MOST_PAGE: usize = 8 << 20;

#[derive(Clone)]
pub(crate) struct Upstream {
    connect: Patience,
    /// The runtime for connections to other regions: all threads share them, and a connection ends
    /// with the runtime that opened it, which for a thread's own runtime may be in the middle of an
    /// answer.
    far: Option<Handle>,
    lines: Arc<Pool>,
}

type Pool = Mutex<HashMap<Authority, Lines>>;

/// Idle connections to one replica.
#[derive(Default)]
struct Lines {
    /// The longest idle in front.
    idle: VecDeque<Idle>,
    /// Connections being opened to keep ready.
    opening: usize,
}

struct Idle {
    line: Box<Line>,
    since: Instant,
    /// A replica that was removed and added again may have other credentials, or https.
    dial: Arc<Dial>,
}

/// One connection and its sending handle. Boxed: it is as large as a request's head, and moves with
/// each answer.
struct Line {
    sender: SendRequest<Parts>,
    connection: Connection<Wire, Parts>,
    look: Arc<Look>,
}

/// An answer: its head, and the rest as it streams.
pub(crate) struct Answered {
    pub(crate) head: response::Parts,
    pub(crate) body: Flow,
    /// When there was a connection for the request.
    pub(crate) connected: std::time::Instant,
}

/// An exchange without an answer head.
struct Failed {
    /// No byte of the request was sent.
    unsent: bool,
    error: AttemptError,
}

pub(crate) struct Page {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

impl Upstream {
    /// Uses the caller's runtime, where it also closes connections. A new connection may take until
    /// `connect`.
    pub(crate) fn new(connect: Patience) -> Upstream {
        let lines = Arc::default();
        tokio::spawn(sweep(Arc::downgrade(&lines)));
        Upstream { connect, far: None, lines }
    }

    /// For replicas of other regions. Shared by all threads, on the caller's runtime, which
    /// outlives theirs.
    pub(crate) fn far(connect: Patience) -> Upstream {
        Upstream { far: Some(Handle::current()), ..Upstream::new(connect) }
    }

    /// Sends a request and waits for the head of its answer.
    pub(crate) async fn send(
        &self,
        replica: &Arc<Dial>,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        body: &Parts,
    ) -> Result<Answered, AttemptError> {
        let request = || {
            let mut request = request(replica, method, path, headers, body)?;
            if let Some(key) = &replica.with.now().key {
                request.headers_mut().remove(API_KEY);
                request.headers_mut().insert(AUTHORIZATION, key.clone());
            }
            Ok(request)
        };
        // The replica may be closing a pooled connection at this very moment. If nothing of the
        // request was sent, a new connection gets it. Otherwise the replica may have received it,
        // and the attempt has failed.
        let kept = self.kept(replica).await;
        self.make_ready(replica);
        if let Some(line) = kept {
            match self.exchange(line, replica, request()?).await {
                Err(Failed { unsent: true, .. }) => {}
                result => return result.map_err(|failed| failed.error),
            }
        }
        let line = self.open(replica).await?;
        self.exchange(line, replica, request()?).await.map_err(|failed| failed.error)
    }

    /// Gets a small page within `limit`.
    pub(crate) async fn get(
        &self,
        replica: &Arc<Dial>,
        path: &str,
        limit: Duration,
    ) -> Result<Page, AttemptError> {
        let whole = async {
            let nothing = Parts::default();
            let answered =
                self.send(replica, &Method::GET, path, &HeaderMap::new(), &nothing).await?;
            let status = answered.head.status;
            let body = Limited::new(answered.body, MOST_PAGE).collect().await;
            let body =
                body.map_err(|e| AttemptError::replica(format!("the answer stopped early: {e}")));
            let body = body.map_err(|error| error.because(cause::RESET))?;
            Ok(Page { status, body: body.to_bytes() })
        };
        match tokio::time::timeout(limit, whole).await {
            Ok(page) => page,
            Err(_) => Err(AttemptError::replica(late(limit)).because(cause::TIMEOUT)),
        }
    }

    /// A pooled connection that is still open: the most recently used, or for replicas with ready
    /// ones the least recently used.
    async fn kept(&self, replica: &Arc<Dial>) -> Option<Box<Line>> {
        let next = |lines: &mut Lines| match self.far {
            None => lines.idle.pop_back(),
            Some(_) => lines.idle.pop_front(),
        };
        loop {
            let idle = self.of(replica, next)?;
            let mut line = idle.line;
            let is_same = Arc::ptr_eq(&idle.dial, replica) && idle.since.elapsed() < KEEP;
            if is_same && poll_fn(|cx| Poll::Ready(line.is_usable(cx))).await {
                return Some(line);
            }
        }
    }

    /// Opens the missing ready connections.
    fn make_ready(&self, replica: &Arc<Dial>) {
        let Some(home) = &self.far else { return };
        let missing = self.of(replica, |lines| {
            let missing = READY.saturating_sub(lines.idle.len() + lines.opening);
            lines.opening += missing;
            missing
        });
        for _ in 0..missing {
            let (upstream, replica) = (self.clone(), replica.clone());
            home.spawn(async move {
                let line = upstream.dial(&replica).await;
                upstream.of(&replica, |lines| lines.opening -= 1);
                // If this fails, the next request reports why.
                if let Ok(line) = line {
                    upstream.keep(replica, line);
                }
            });
        }
    }

    fn of<T>(&self, replica: &Dial, f: impl FnOnce(&mut Lines) -> T) -> T {
        let mut lines = self.lines.lock();
        match lines.get_mut(&replica.at) {
            Some(lines) => f(lines),
            None => f(lines.entry(replica.at.clone()).or_default()),
        }
    }

    async fn open(&self, replica: &Arc<Dial>) -> Result<Box<Line>, AttemptError> {
        let Some(home) = &self.far else { return self.dial(replica).await };
        let (upstream, to) = (self.clone(), replica.clone());
        let opened = home.spawn(async move { upstream.dial(&to).await }).await;
        opened.unwrap_or_else(|_| {
            Err(AttemptError::of(Fault::Unreached, "this gateway is shutting down"))
        })
    }

    async fn dial(&self, replica: &Dial) -> Result<Box<Line>, AttemptError> {
        let stream = TokioIo::new(replica.connect(self.connect.get()).await?);
        let look = Arc::new(Look::default());
        let opened = handshake(Wire { stream, look: look.clone() }).await;
        let (sender, connection) =
            opened.map_err(|e| AttemptError::of(Fault::Unreached, describe(&e)))?;
        Ok(Box::new(Line { sender, connection, look }))
    }

    /// Sends a request over a connection and polls it until the head of the answer has arrived.
    async fn exchange(
        &self,
        mut line: Box<Line>,
        replica: &Arc<Dial>,
        request: Request<Parts>,
    ) -> Result<Answered, Failed> {
        let Line { sender, connection, .. } = &mut *line;
        let mut answer = std::pin::pin!(sender.try_send_request(request));
        let connected = std::time::Instant::now();
        let mut ended = false;
        let response = poll_fn(|cx| {
            loop {
                if let Poll::Ready(response) = answer.as_mut().poll(cx) {
                    return Poll::Ready(response);
                }
                if ended || Pin::new(&mut *connection).poll(cx).is_pending() {
                    // This poll may just have delivered the answer.
                    return answer.as_mut().poll(cx);
                }
                ended = true;
            }
        });
        let response = response.await.map_err(|mut e| {
            let unsent = e.take_message().is_some();
            Failed { unsent, error: no_head(e.error(), unsent) }
        })?;
        let (head, body) = response.into_parts();
        let kept = PooledLine { line, upstream: self.clone(), replica: replica.clone() };
        Ok(Answered { head, body: Flow { body, kept: Some(kept) }, connected })
    }

    /// Returns a connection to the pool.
    fn keep(&self, dial: Arc<Dial>, line: Box<Line>) {
        self.of(&dial.clone(), |lines| {
            lines.idle.push_back(Idle { line, since: Instant::now(), dial });
        });
    }
}

/// Closes idle connections, until the pool is gone.
async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut old = Vec::new();
        pool.lock().retain(|_, lines| {
            let kept = lines.idle.iter().take_while(|i| i.since.elapsed() >= KEEP).count();
            old.extend(lines.idle.drain(..kept));
            !lines.idle.is_empty() || lines.opening > 0
        });
    }
}

impl Line {
    /// Whether another request can be sent: the connection is open, and nothing has arrived since
    /// its last answer. Polling reveals a closed one.
    fn is_usable(&mut self, cx: &mut Context<'_>) -> bool {
        self.look.wanted.store(true, Ordering::Relaxed);
        let open = Pin::new(&mut self.connection).poll(cx).is_pending()
            && matches!(self.sender.poll_ready(cx), Poll::Ready(Ok(())));
        let looked = !self.look.wanted.swap(false, Ordering::Relaxed);
        open && looked && !self.look.came.load(Ordering::Relaxed)
    }
}

/// A connection, and the pool to return it to after its answer.
struct PooledLine {
    line: Box<Line>,
    upstream: Upstream,
    replica: Arc<Dial>,
}

/// The rest of an answer. If dropped early, it closes the connection, which tells the engine that
/// the client is gone; for a peer's answer it resets the stream.
pub(crate) struct Flow {
    body: Incoming,
    /// None for a peer's connection, which has a task of its own.
    kept: Option<PooledLine>,
}

impl Flow {
    /// The rest of a peer's answer.
    pub(crate) fn of_peer(body: Incoming) -> Flow {
        Flow { body, kept: None }
    }

    fn reuse(&mut self) {
        if let Some(PooledLine { line, upstream, replica }) = self.kept.take() {
            upstream.keep(replica, line);
        }
    }
}

impl http_body::Body for Flow {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        let mut frame = Pin::new(&mut this.body).poll_frame(cx);
        if frame.is_pending()
            && let Some(kept) = &mut this.kept
        {
            // The body reports its end, with or without an error.
            let _ = Pin::new(&mut kept.line.connection).poll(cx);
            frame = Pin::new(&mut this.body).poll_frame(cx);
        }
        if matches!(frame, Poll::Ready(None)) || this.body.is_end_stream() {
            this.reuse();
        }
        frame
    }

    /// For a peer's answer, the last byte may arrive before the stream's end: a client that knows
    /// the length will not poll for more.
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream() || self.body.size_hint().exact() == Some(0)
    }
}

fn request(
    replica: &Dial,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    body: &Parts,
) -> Result<Request<Parts>, AttemptError> {
    let mut request = Request::new(body.clone());
    *request.method_mut() = method.clone();
    *request.uri_mut() = path
        .parse()
        .map_err(|e| AttemptError::replica(format!("the path cannot be forwarded: {e}")))?;
    *request.headers_mut() = headers.clone();
    let host = HeaderValue::from_str(replica.at.as_str()).expect("an authority is a header value");
    request.headers_mut().insert(HOST, host);
    Ok(request)
}

#[cfg(test)]
mod tests;
