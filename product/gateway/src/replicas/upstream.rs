//! Connections to replicas: pooled, with TCP_NODELAY, and closed to cancel a request.
//!
//! A connection has no task of its own. The reader of an answer polls the connection that delivers
//! it, so a piece of an answer goes from socket to socket within one poll: no task is woken, and
//! pieces that arrived together leave together. Compared with a pool that has a task per
//! connection, this halves the CPU time of a streamed answer. [`super::http1`] has the protocol.
//!
//! A request whose pooled connection ends without an answer is sent once more, over a new one.
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
mod flow;

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, response};
use http_body_util::{BodyExt, Limited};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::cause;
use crate::fault::{AttemptError, Fault};
use crate::http::parts::Parts;
use crate::inputs::in_force::ConfigNow;
use crate::lock::Mutex;
use crate::replicas::dial::Dial;
pub(crate) use crate::replicas::http1::Request;
use crate::replicas::http1::{Host, Line, Unanswered};
pub(crate) use errors::late;
use errors::no_head;
pub(crate) use flow::Flow;
use flow::PooledLine;

/// Idle time after which a connection is closed if the replica names none: below the 5 s of uvicorn
/// (vLLM, SGLang) and cpp-httplib (llama.cpp), so a request rarely meets a connection that is just
/// being closed.
const KEEP: Duration = Duration::from_secs(4);
/// Rest of a connection before its next request, at a replica that has sent an answer too many: a
/// late one arrives meanwhile, and the connection is closed instead.
const SETTLE: Duration = Duration::from_millis(50);
/// How long a replica counts as one.
const TALKS: Duration = Duration::from_secs(600);
/// A replica that names a time keeps its connections for longer than this gateway does.
const EARLIER: Duration = Duration::from_secs(1);
/// The longest idle time, whatever a replica names.
const KEEP_MOST: Duration = Duration::from_secs(30);
/// Interval between two searches for idle connections.
const SWEEP: Duration = Duration::from_secs(1);
/// Connections kept ready to each replica of another region.
const READY: usize = 2;
/// Largest status page read, bytes: vLLM's metrics with many LoRA labels stay well below.
const MOST_PAGE: usize = 8 << 20;

#[derive(Clone)]
pub(crate) struct Upstream {
    /// A new connection may take `timeouts.connect`.
    config: Arc<ConfigNow>,
    /// The runtime for connections to other regions: all threads share them, and a connection ends
    /// with the runtime that opened it, which for a thread's own runtime may be in the middle of an
    /// answer.
    far: Option<Handle>,
    lines: Arc<Pool>,
}

/// Idle connections by the address in memory of their [`Dial`], which [`Lines`] keep alive. A replica
/// that was removed and added again may have other credentials, or https, and has another one.
type Pool = Mutex<HashMap<usize, Lines>>;

/// Idle connections to one replica.
struct Lines {
    _dial: Arc<Dial>,
    /// The longest idle in front.
    idle: VecDeque<Idle>,
    /// Connections being opened to keep ready.
    opening: usize,
    /// Notified of each connection that comes back.
    back: Arc<Notify>,
    /// Set if something that no request asked for came over a connection: until when its
    /// connections rest before they are used again.
    talks_until: Option<Instant>,
}

impl Lines {
    /// Whether its connections rest before they are used again.
    fn talks(&self, now: Instant) -> bool {
        self.talks_until.is_some_and(|until| now < until)
    }

    /// Takes an idle connection that has rested long enough: the least recently used if `oldest`,
    /// otherwise the most recently used.
    fn next(&mut self, now: Instant, oldest: bool) -> Option<Idle> {
        let talks = self.talks(now);
        let at = if oldest || talks { 0 } else { self.idle.len().checked_sub(1)? };
        let rested = now.saturating_duration_since(self.idle.get(at)?.since);
        if talks && rested < SETTLE { None } else { self.idle.remove(at) }
    }
}

struct Idle {
    line: Box<Line>,
    since: Instant,
    /// When it is closed.
    until: Instant,
}

/// A replica that closes an idle connection just when a request comes does so within this time.
const RACE: Duration = Duration::from_secs(1);

/// An answer: its head, and the rest as it streams.
pub(crate) struct Answered {
    pub(crate) head: response::Parts,
    pub(crate) body: Flow,
    /// When there was a connection for the request.
    pub(crate) connected: std::time::Instant,
}

pub(crate) struct Page {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

impl Upstream {
    /// Uses the caller's runtime, where it also closes connections.
    pub(crate) fn new(config: Arc<ConfigNow>) -> Upstream {
        let lines = Arc::default();
        tokio::spawn(sweep(Arc::downgrade(&lines)));
        Upstream { config, far: None, lines }
    }

    /// For replicas of other regions. Shared by all threads, on the caller's runtime, which
    /// outlives theirs.
    pub(crate) fn far(config: Arc<ConfigNow>) -> Upstream {
        Upstream { far: Some(Handle::current()), ..Upstream::new(config) }
    }

    /// Sends a request and waits for the head of its answer.
    pub(crate) async fn send(
        &self,
        replica: &Arc<Dial>,
        request: Request<'_>,
    ) -> Result<Answered, AttemptError> {
        let was_cut = request.cut.load(Ordering::Relaxed);
        let mut kept = if was_cut { None } else { self.kept(replica).await };
        self.make_ready(replica);
        loop {
            let (line, is_new) = match kept.take() {
                Some(line) => (line, false),
                None if was_cut => (self.open(replica).await?, true),
                None => self.next(replica).await?,
            };
            let sent = Instant::now();
            match self.exchange(line, replica, request).await {
                Err(Unanswered { unsent: true, .. }) if !is_new => {}
                Err(unanswered) if !unanswered.unsent && unanswered.error.is_cut() => {
                    let is_race = !is_new && sent.elapsed() < RACE;
                    return self.after_cut(unanswered, is_race, replica, request).await;
                }
                result => return result.map_err(no_head),
            }
        }
    }

    /// A connection ended before the head of an answer.
    ///
    /// The replica may have closed a pooled connection because it was idle, just when the request
    /// came (a race), or its engine died of the request. If no byte of an answer came, the replica is asked
    /// once more, over a new connection: a dead engine accepts none, or ends that one, too. Every
    /// request may be sent again, as it may to another replica after a failed attempt. But a body
    /// that kills engines must not reach one more of them by each connection: later attempts of the
    /// request get new connections, whose end can only be the engine's.
    async fn after_cut(
        &self,
        unanswered: Unanswered,
        is_race: bool,
        replica: &Arc<Dial>,
        request: Request<'_>,
    ) -> Result<Answered, AttemptError> {
        let was_cut = request.cut.swap(true, Ordering::Relaxed);
        if !is_race || was_cut || unanswered.began {
            return Err(no_head(unanswered));
        }
        match self.open(replica).await {
            Ok(line) => self.exchange(line, replica, request).await.map_err(no_head),
            Err(error) => {
                let died = no_head(unanswered);
                Err(AttemptError { message: format!("{died}; then: {error}"), ..died })
            }
        }
    }

    /// A new connection, or one that comes back before that is open: in a burst, handshakes of TLS
    /// take longer than short answers. True if it is new.
    async fn next(&self, replica: &Arc<Dial>) -> Result<(Box<Line>, bool), AttemptError> {
        let (upstream, to) = (self.clone(), replica.clone());
        let mut opening = Box::pin(async move { upstream.open(&to).await });
        let line = tokio::select! {
            biased;
            line = &mut opening => return Ok((line?, true)),
            line = self.back(replica) => line,
        };
        // The handshake was paid for, and there are more requests than connections.
        let (upstream, to) = (self.clone(), replica.clone());
        tokio::spawn(async move {
            if let Ok(line) = opening.await {
                upstream.keep(&to, line);
            }
        });
        Ok((line, false))
    }

    /// The next connection that comes back and that no other request takes first.
    async fn back(&self, replica: &Arc<Dial>) -> Box<Line> {
        let back = self.of(replica, |lines| lines.back.clone());
        loop {
            back.notified().await;
            if let Some(line) = self.kept(replica).await {
                return line;
            }
        }
    }

    /// Gets a small page within `limit`.
    pub(crate) async fn get(
        &self,
        replica: &Arc<Dial>,
        path: &str,
        limit: Duration,
    ) -> Result<Page, AttemptError> {
        let whole = async {
            let (headers, body) = (&HeaderMap::new(), &Parts::default());
            let cut = &AtomicBool::new(false);
            let request = Request { method: &Method::GET, path, headers, added: &[], body, cut };
            let answered = self.send(replica, request).await?;
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
        let oldest = self.far.is_some();
        loop {
            let idle = self.of(replica, |lines| lines.next(Instant::now(), oldest))?;
            let mut line = idle.line;
            let is_fresh = Instant::now() < idle.until;
            if is_fresh && poll_fn(|cx| Poll::Ready(line.is_silent(cx))).await {
                return Some(line);
            }
            if line.has_more() {
                self.of(replica, |lines| lines.talks_until = Some(Instant::now() + TALKS));
            }
        }
    }

    /// Opens the missing ready connections.
    fn make_ready(&self, replica: &Arc<Dial>) {
        let Some(home) = &self.far else { return };
        let missing = self.of(replica, |lines| {
            let missing = READY.saturating_sub(lines.idle.len() + lines.opening);
            lines.opening += missing;
            assert!(lines.opening <= READY, "{} connections are opened to be ready", lines.opening);
            missing
        });
        for _ in 0..missing {
            let (upstream, replica) = (self.clone(), replica.clone());
            home.spawn(async move {
                let line = upstream.dial(&replica).await;
                upstream.of(&replica, |lines| {
                    assert!(lines.opening > 0, "more connections were opened than began");
                    lines.opening -= 1;
                });
                // If this fails, the next request reports why.
                if let Ok(line) = line {
                    upstream.keep(&replica, line);
                }
            });
        }
    }

    fn of<T>(&self, replica: &Arc<Dial>, f: impl FnOnce(&mut Lines) -> T) -> T {
        let mut lines = self.lines.lock();
        let lines = lines.entry(Arc::as_ptr(replica).addr()).or_insert_with(|| Lines {
            _dial: replica.clone(),
            idle: VecDeque::new(),
            opening: 0,
            back: Arc::default(),
            talks_until: None,
        });
        f(lines)
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
        let patience = self.config.now().settings.timeouts.connect.0;
        Ok(Box::new(Line::new(replica.connect(patience).await?)))
    }

    /// Sends a request over a connection, and waits until the head of its answer has arrived.
    async fn exchange(
        &self,
        mut line: Box<Line>,
        replica: &Arc<Dial>,
        request: Request<'_>,
    ) -> Result<Answered, Unanswered> {
        let given = replica.with.now();
        let host = Host { authority: replica.at.as_str(), key: given.key.as_ref() };
        let connected = std::time::Instant::now();
        let head = line.ask(request, host).await?;
        let kept = PooledLine { line, upstream: self.clone(), replica: replica.clone() };
        Ok(Answered { head, body: Flow::of_replica(kept), connected })
    }

    /// Returns a connection to the pool.
    fn keep(&self, replica: &Arc<Dial>, line: Box<Line>) {
        assert!(line.is_reusable(), "a connection is pooled in the middle of an answer");
        // It is closed a little before the replica does so.
        let kept = line.rests().map_or(KEEP, |rests| rests.saturating_sub(EARLIER).min(KEEP_MOST));
        if kept.is_zero() {
            return;
        }
        self.of(replica, |lines| {
            let since = Instant::now();
            lines.idle.push_back(Idle { line, since, until: since + kept });
            lines.back.notify_one();
        });
    }
}

/// Closes idle connections, until the pool is gone.
async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(pool) = pool.upgrade() else { return };
        let (mut old, now) = (VecDeque::new(), Instant::now());
        pool.lock().retain(|_, lines| {
            if lines.idle.iter().any(|idle| now >= idle.until) {
                for idle in std::mem::take(&mut lines.idle) {
                    let to = if now < idle.until { &mut lines.idle } else { &mut old };
                    to.push_back(idle);
                }
            }
            !lines.idle.is_empty() || lines.opening > 0 || lines.talks(now)
        });
    }
}

#[cfg(test)]
mod tests;
