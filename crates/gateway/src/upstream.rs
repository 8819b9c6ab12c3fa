//! Connections to replicas: kept for reuse, TCP_NODELAY, cancelled by being dropped.
//!
//! A connection has no task of its own. Whoever reads an answer turns the connection that brings
//! it, so a piece of an answer goes from socket to socket within one poll: nothing is woken, and
//! pieces that arrived together leave together. Measured against a pool with a task for each
//! connection, this halves the processor time of a streamed answer.
//!
//! To open one takes a round trip. Within a region that is nothing; to a replica of another one it is
//! as long again as the first token is on its way, so some lie ready there beside those in use, and
//! all take turns, so that none lies unused until it is closed.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

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

use crate::body::Parts;
use crate::error::AttemptError;
use crate::lock::Mutex;
use crate::tenants::API_KEY;

/// A connection unused for this long is closed: below the 5 s after which uvicorn (vLLM, SGLang)
/// and cpp-httplib (llama.cpp) close theirs, so that a request seldom meets a connection that is
/// just going away.
const KEEP: Duration = Duration::from_secs(4);
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
    lines: Arc<Mutex<HashMap<Authority, Lines>>>,
}

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
    connection: Connection<TokioIo<TcpStream>, Parts>,
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
    pub(crate) fn new(config: &Config) -> Upstream {
        let key = config.engine_key.as_ref().map(|key| {
            // The configuration was checked.
            let value = HeaderValue::from_str(&format!("Bearer {key}"));
            let mut value = value.expect("printable characters are a header value");
            value.set_sensitive(true);
            value
        });
        Upstream { connect: config.timeouts.connect.0, key, far: None, lines: Arc::default() }
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
            let body = body.map_err(|e| AttemptError::replica(format!("GET {path}: {e}")))?;
            Ok(Page { status, body: body.to_bytes() })
        };
        match tokio::time::timeout(limit, whole).await {
            Ok(page) => page,
            Err(_) => {
                let ms = limit.as_millis();
                Err(AttemptError::replica(format!("GET {path}: no answer within {ms} ms")))
            }
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
            if idle.since.elapsed() < KEEP && poll_fn(|cx| Poll::Ready(line.is_open(cx))).await {
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
        opened.unwrap_or_else(|_| Err(AttemptError::replica("this gateway ends")))
    }

    async fn dial(&self, replica: &Authority) -> Result<Line, AttemptError> {
        let address = (replica.host().trim_matches(['[', ']']), replica.port_u16().unwrap_or(80));
        let stream = match tokio::time::timeout(self.connect, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                return Err(AttemptError::replica(format!("cannot connect: {error}")));
            }
            Err(_) => {
                let ms = self.connect.as_millis();
                return Err(AttemptError::replica(format!(
                    "not connected within {ms} ms (timeouts.connect)"
                )));
            }
        };
        // Without it a small request waits for the replica's acknowledgement.
        let _ = stream.set_nodelay(true);
        let opened = handshake(TokioIo::new(stream)).await;
        let (sender, connection) = opened.map_err(|e| AttemptError::replica(describe(&e)))?;
        Ok(Line { sender, connection })
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
        let response = response.await.map_err(|mut e| Failed {
            unsent: e.take_message().is_some(),
            error: AttemptError::replica(describe(e.error())),
        })?;
        let (head, body) = response.into_parts();
        let kept = Kept { line, upstream: self.clone(), replica: replica.clone() };
        Ok(Answered { head, body: Flow { body, kept: Some(kept) } })
    }

    /// Keeps a connection for the next request, and closes those kept too long.
    fn keep(&self, replica: &Authority, line: Line) {
        self.of(replica, |Lines { idle, .. }| {
            idle.push_back(Idle { line, since: Instant::now() });
            let old = idle.iter().take_while(|i| i.since.elapsed() >= KEEP).count();
            idle.drain(..old);
        });
    }
}

impl Line {
    /// Whether another request can be sent; a closed connection says so when it is turned.
    fn is_open(&mut self, cx: &mut Context<'_>) -> bool {
        Pin::new(&mut self.connection).poll(cx).is_pending()
            && matches!(self.sender.poll_ready(cx), Poll::Ready(Ok(())))
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

/// An error with its innermost cause: hyper's outermost says little.
fn describe(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    format!("{error}: {cause}")
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    /// A replica that answers everything, as long as the test runs.
    async fn replica() -> Authority {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound").to_string();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let answer = hyper::service::service_fn(|_| async {
                    let nothing = http_body_util::Empty::<Bytes>::new();
                    Ok::<_, std::convert::Infallible>(http::Response::new(nothing))
                });
                let server = hyper::server::conn::http1::Builder::new();
                tokio::spawn(server.serve_connection(TokioIo::new(stream), answer));
            }
        });
        address.parse().expect("an address is an authority")
    }

    fn config() -> Config {
        let yaml = "version: 1\nreplicas:\n- url: http://127.0.0.1:1\n";
        Config::read(yaml).expect("it is a configuration")
    }

    fn idle(upstream: &Upstream, replica: &Authority) -> usize {
        upstream.of(replica, |lines| lines.idle.len())
    }

    // Beside the connection that a request used, as many as were asked for lie ready for the next ones;
    // each taken is made up for. Near replicas have those alone that were used.
    #[tokio::test]
    async fn far_replicas_have_connections_ready() {
        let replica = replica().await;
        let far = Upstream::far(&config());
        far.get(&replica, "/health", SOON).await.expect("it answers");
        let settled = |many: usize| {
            let (far, replica) = (&far, &replica);
            async move {
                while idle(far, replica) != many {
                    tokio::task::yield_now().await;
                }
            }
        };
        tokio::time::timeout(SOON, settled(1 + READY)).await.expect("they are opened");
        for _ in 0..=READY {
            assert!(far.kept(&replica).await.is_some(), "nobody has to connect");
        }
        far.make_ready(&replica);
        far.make_ready(&replica);
        tokio::time::timeout(SOON, settled(READY)).await.expect("they are opened, and once");

        let near = Upstream::new(&config());
        near.get(&replica, "/health", SOON).await.expect("it answers");
        assert_eq!(idle(&near, &replica), 1);
    }

    // A thread of the gateway may be through and gone while another one brings an answer over a
    // connection that the first one asked for.
    #[tokio::test]
    async fn an_answer_from_afar_outlives_the_thread_that_asked() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound").to_string();
        let go = Arc::new(tokio::sync::Notify::new());
        let told = go.clone();
        tokio::spawn(async move {
            // Those that lie ready ask nothing.
            while let Ok((mut stream, _)) = listener.accept().await {
                let told = told.clone();
                tokio::spawn(async move {
                    let asked = stream.read(&mut [0; 1024]).await.expect("it asks");
                    assert!(asked > 0, "nobody hangs up before");
                    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab";
                    stream.write_all(head).await.expect("it is there");
                    told.notified().await;
                    stream.write_all(b"cd").await.expect("it is there");
                    std::future::pending::<()>().await;
                });
            }
        });
        let far = Upstream::far(&config());
        let asked = tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let replica = address.parse().expect("an address is an authority");
            let nothing = Parts::default();
            let headers = HeaderMap::new();
            let answer = far.send(&replica, &Method::GET, "/", &headers, &nothing);
            runtime.expect("a runtime").block_on(answer)
        });
        let asked = tokio::time::timeout(SOON, asked).await.expect("somebody answers");
        let answered = match asked.expect("it did not panic") {
            Ok(answered) => answered,
            Err(error) => panic!("not answered: {error}"),
        };
        go.notify_one();
        let body = tokio::time::timeout(SOON, answered.body.collect()).await.expect("it goes on");
        assert_eq!(body.expect("it is whole").to_bytes(), "abcd");
    }
}
