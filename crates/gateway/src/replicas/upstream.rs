//! Connections to replicas: kept for reuse, TCP_NODELAY, cancelled by being dropped.
//!
//! A connection has no task of its own. Whoever reads an answer turns the connection that brings
//! it, so a piece of an answer goes from socket to socket within one poll: nothing is woken, and
//! pieces that arrived together leave together. Measured against a pool with a task for each
//! connection, this halves the processor time of a streamed answer.
//!
//! A connection that is kept has nothing more to say. One that does, an answer that was not asked
//! for, would be taken for the next request's, so its socket is looked at before it is used again;
//! those that were not used for a while a task closes.
//!
//! To open one takes a round trip. Within a region that is nothing; to a replica of another one it is
//! as long again as the first token is on its way, so some lie ready there beside those in use, and
//! all take turns, so that none lies unused until it is closed.

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
use meridian_wire::config::Gateway as Config;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::error::{AttemptError, Source};
use crate::http::headers::API_KEY;
use crate::http::parts::Parts;
use crate::lock::Mutex;
use crate::replicas::socket::{Look, Wire};
use errors::{describe, no_head};
pub(crate) use errors::{is_cut, late};

/// A connection unused for this long is closed: below the 5 s after which uvicorn (vLLM, SGLang)
/// and cpp-httplib (llama.cpp) close theirs, so that a request seldom meets a connection that is
/// just going away.
const KEEP: Duration = Duration::from_secs(4);
/// How often those are looked for.
const SWEEP: Duration = Duration::from_secs(1);
/// Connections that lie ready to each replica of another region.
const READY: usize = 2;
/// Largest status page read, bytes: vLLM's metrics with many LoRA labels stay well below.
const MOST_PAGE: usize = 8 << 20;

#[derive(Clone)]
pub(crate) struct Upstream {
    connect: Duration,
    /// What replicas ask for.
    key: Option<HeaderValue>,
    /// Where connections to other regions are opened: all threads share them, and a connection ends
    /// with the runtime that opened it, which a thread's own may do in the middle of an answer.
    far: Option<Handle>,
    lines: Arc<Pool>,
}

type Pool = Mutex<HashMap<Authority, Lines>>;

/// Connections to one replica that nobody uses.
#[derive(Default)]
struct Lines {
    /// The longest unused in front.
    idle: VecDeque<Idle>,
    /// Under way to lie ready.
    opening: usize,
}

struct Idle {
    line: Line,
    since: Instant,
}

/// One connection and the handle that sends on it.
struct Line {
    sender: SendRequest<Parts>,
    connection: Connection<Wire, Parts>,
    look: Arc<Look>,
}

/// An answer: its head, and the rest as it comes.
pub(crate) struct Answered {
    pub(crate) head: response::Parts,
    pub(crate) body: Flow,
}

/// An exchange that brought no head.
struct Failed {
    /// Not a byte of the request went out.
    unsent: bool,
    error: AttemptError,
}

pub(crate) struct Page {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

impl Upstream {
    /// On the runtime of the caller, where it also closes connections.
    pub(crate) fn new(config: &Config) -> Upstream {
        let key = config.engine_key.as_ref().map(|key| {
            // The configuration was checked.
            let value = HeaderValue::from_str(&format!("Bearer {key}"));
            let mut value = value.expect("printable characters are a header value");
            value.set_sensitive(true);
            value
        });
        let lines = Arc::default();
        tokio::spawn(sweep(Arc::downgrade(&lines)));
        Upstream { connect: config.timeouts.connect.0, key, far: None, lines }
    }

    /// To replicas of other regions; for all threads, on the runtime of whoever calls, which outlives
    /// theirs.
    pub(crate) fn far(config: &Config) -> Upstream {
        Upstream { far: Some(Handle::current()), ..Upstream::new(config) }
    }

    /// Sends a request and waits for the head of its answer.
    pub(crate) async fn send(
        &self,
        replica: &Authority,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        body: &Parts,
    ) -> Result<Answered, AttemptError> {
        let request = || {
            let mut request = request(replica, method, path, headers, body)?;
            if let Some(key) = &self.key {
                request.headers_mut().remove(API_KEY);
                request.headers_mut().insert(AUTHORIZATION, key.clone());
            }
            Ok(request)
        };
        // A kept connection may be closed by the other side in this very moment. Where nothing of
        // the request was sent, a new connection gets it; otherwise it may have been taken, and
        // the attempt has failed.
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
        replica: &Authority,
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
                body.map_err(|e| AttemptError::replica(format!("the answer broke off: {e}")))?;
            Ok(Page { status, body: body.to_bytes() })
        };
        match tokio::time::timeout(limit, whole).await {
            Ok(page) => page,
            Err(_) => Err(AttemptError::replica(late(limit))),
        }
    }

    /// A kept connection that is still open: the most recently used, or where some lie ready the
    /// least recently.
    async fn kept(&self, replica: &Authority) -> Option<Line> {
        let next = |lines: &mut Lines| match self.far {
            None => lines.idle.pop_back(),
            Some(_) => lines.idle.pop_front(),
        };
        loop {
            let idle = self.of(replica, next)?;
            let mut line = idle.line;
            if idle.since.elapsed() < KEEP && poll_fn(|cx| Poll::Ready(line.is_usable(cx))).await {
                return Some(line);
            }
        }
    }

    /// Opens what is missing of those that are to lie ready.
    fn make_ready(&self, replica: &Authority) {
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
                // Why it failed the next request is told, if there is one.
                if let Ok(line) = line {
                    upstream.keep(&replica, line);
                }
            });
        }
    }

    fn of<T>(&self, replica: &Authority, f: impl FnOnce(&mut Lines) -> T) -> T {
        let mut lines = self.lines.lock();
        match lines.get_mut(replica) {
            Some(lines) => f(lines),
            None => f(lines.entry(replica.clone()).or_default()),
        }
    }

    async fn open(&self, replica: &Authority) -> Result<Line, AttemptError> {
        let Some(home) = &self.far else { return self.dial(replica).await };
        let (upstream, to) = (self.clone(), replica.clone());
        let opened = home.spawn(async move { upstream.dial(&to).await }).await;
        opened.unwrap_or_else(|_| Err(AttemptError::of(Source::Unreached, "this gateway ends")))
    }

    async fn dial(&self, replica: &Authority) -> Result<Line, AttemptError> {
        let address = (replica.host().trim_matches(['[', ']']), replica.port_u16().unwrap_or(80));
        let stream = match tokio::time::timeout(self.connect, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                let message = format!("cannot connect: {error}");
                return Err(AttemptError::of(Source::Unreached, message));
            }
            Err(_) => {
                let ms = self.connect.as_millis();
                let message = format!("not connected within {ms} ms (timeouts.connect)");
                return Err(AttemptError::of(Source::Unreached, message));
            }
        };
        // Without it a small request waits for the replica's acknowledgement.
        let _ = stream.set_nodelay(true);
        let look = Arc::new(Look::default());
        let opened = handshake(Wire { stream: TokioIo::new(stream), look: look.clone() }).await;
        let (sender, connection) =
            opened.map_err(|e| AttemptError::of(Source::Unreached, describe(&e)))?;
        Ok(Line { sender, connection, look })
    }

    /// Sends on a connection, turning it until the head of the answer is here.
    async fn exchange(
        &self,
        mut line: Line,
        replica: &Authority,
        request: Request<Parts>,
    ) -> Result<Answered, Failed> {
        let mut answer = std::pin::pin!(line.sender.try_send_request(request));
        let connection = &mut line.connection;
        let mut ended = false;
        let response = poll_fn(|cx| {
            loop {
                if let Poll::Ready(response) = answer.as_mut().poll(cx) {
                    return Poll::Ready(response);
                }
                if ended || Pin::new(&mut *connection).poll(cx).is_pending() {
                    // The turn may just have brought the answer.
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
        let kept = Kept { line, upstream: self.clone(), replica: replica.clone() };
        Ok(Answered { head, body: Flow { body, kept: Some(kept) } })
    }

    /// Keeps a connection for the next request.
    fn keep(&self, replica: &Authority, line: Line) {
        self.of(replica, |lines| lines.idle.push_back(Idle { line, since: Instant::now() }));
    }
}

/// Closes connections that were kept too long, until the pool is gone.
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
    /// Whether another request can be sent: it is open, and nothing has come on it since its last
    /// answer. A closed connection says so when it is turned.
    fn is_usable(&mut self, cx: &mut Context<'_>) -> bool {
        self.look.wanted.store(true, Ordering::Relaxed);
        let open = Pin::new(&mut self.connection).poll(cx).is_pending()
            && matches!(self.sender.poll_ready(cx), Poll::Ready(Ok(())));
        let looked = !self.look.wanted.swap(false, Ordering::Relaxed);
        open && looked && !self.look.came.load(Ordering::Relaxed)
    }
}

/// A connection, and where it goes when its answer is whole.
struct Kept {
    line: Line,
    upstream: Upstream,
    replica: Authority,
}

/// The rest of an answer. Dropped before its end, it closes the connection, which tells the
/// engine that nobody waits any more; of a peer's answer it resets the stream.
pub(crate) struct Flow {
    body: Incoming,
    /// A peer's connection is turned by a task of its own.
    kept: Option<Kept>,
}

impl Flow {
    /// A peer's answer.
    pub(crate) fn of_peer(body: Incoming) -> Flow {
        Flow { body, kept: None }
    }

    fn whole(&mut self) {
        if let Some(Kept { line, upstream, replica }) = self.kept.take() {
            upstream.keep(&replica, line);
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
            // Its end, good or bad, shows in the body.
            let _ = Pin::new(&mut kept.line.connection).poll(cx);
            frame = Pin::new(&mut this.body).poll_frame(cx);
        }
        if matches!(frame, Poll::Ready(None)) || this.body.is_end_stream() {
            this.whole();
        }
        frame
    }

    /// Of a peer's answer the last byte may be here before the stream's end is: a client that was
    /// told the length will not ask for more.
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream() || self.body.size_hint().exact() == Some(0)
    }
}

fn request(
    replica: &Authority,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    body: &Parts,
) -> Result<Request<Parts>, AttemptError> {
    let mut request = Request::new(body.clone());
    *request.method_mut() = method.clone();
    *request.uri_mut() = path
        .parse()
        .map_err(|e| AttemptError::replica(format!("the path cannot be sent on: {e}")))?;
    *request.headers_mut() = headers.clone();
    let host = HeaderValue::from_str(replica.as_str()).expect("an authority is a header value");
    request.headers_mut().insert(HOST, host);
    Ok(request)
}

#[cfg(test)]
mod tests;
