//! The browser page: the state of the regions, and buttons to break and repair them.
//!
//! The page is the one that gateways serve (`meridian-page`). Here are its stream of the state
//! (`/stream`, server-sent events, twice a second; `/state` is the latest one), the explanations of
//! the regions' gateways (`/explain/REGION/REQUEST`), and one address for orders (`POST /orders`). It
//! listens on loopback only, and accepts orders only from its own pages: any client that reaches it
//! can kill the fleet.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};

use super::hours::Shown;
use super::order::Order;
use crate::{Client, Error, Result};

/// The largest order, bytes.
const MOST_BODY: usize = 4 << 10;
/// Most open pages.
const MOST_PAGES: usize = 32;
/// Timeout for a client's headers, and for its body.
const PATIENCE: Duration = Duration::from_secs(10);

/// An order and the channel for its outcome.
pub(super) type BoardAsked = (Order, oneshot::Sender<std::result::Result<(), String>>);

/// The page's server and its channels.
pub(super) struct Board {
    /// Its address.
    pub(super) address: SocketAddr,
    /// The state, as the pages see it.
    pub(super) state: watch::Sender<Shown>,
    /// Orders from the pages.
    pub(super) orders: mpsc::Receiver<BoardAsked>,
}

#[derive(Clone)]
struct Ends {
    state: watch::Receiver<Shown>,
    orders: mpsc::Sender<BoardAsked>,
    client: Client,
}

type BoardAnswer = Response<Either<Full<Bytes>, Events>>;

impl Board {
    /// Listens on any loopback port and serves as long as the runtime lives.
    pub(super) async fn start() -> Result<Board> {
        let address = SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, 0));
        let failed = |source| Error::Listen { field: "the page's address".into(), address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (state, seen) = watch::channel(Shown::default());
        let (asked, orders) = mpsc::channel(16);
        tokio::spawn(serve(listener, Ends { state: seen, orders: asked, client: Client::new() }));
        Ok(Board { address, state, orders })
    }
}

async fn serve(listener: TcpListener, ends: Ends) {
    let room = std::sync::Arc::new(tokio::sync::Semaphore::new(MOST_PAGES));
    loop {
        let permit = room.clone().acquire_owned().await.expect("it is never closed");
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let ends = ends.clone();
        tokio::spawn(async move {
            let service = service_fn(|request: Request<Incoming>| {
                let ends = ends.clone();
                async move { Ok::<_, Infallible>(answer(ends, request).await) }
            });
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
            // A closed page is not an error.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
            drop(permit);
        });
    }
}

async fn answer(ends: Ends, request: Request<Incoming>) -> BoardAnswer {
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/stream") => events(ends.state),
        (&Method::GET, "/state") => {
            let state = ends.state.borrow().whole.clone();
            typed(StatusCode::OK, state, "application/json")
        }
        (&Method::GET, path) if path.starts_with("/explain/") => explain(&ends, path).await,
        (&Method::POST, "/orders") => match order(&ends, request).await {
            Ok(()) => typed(StatusCode::OK, "{}".into(), "application/json"),
            Err((status, why)) => {
                let body = serde_json::json!({ "error": { "message": why } }).to_string();
                typed(status, body.into(), "application/json")
            }
        },
        (&Method::GET, path) => file(path, request.headers()).unwrap_or_else(missing),
        _ => missing(),
    }
}

fn missing() -> BoardAnswer {
    let known = "served here: GET / /stream /state /explain/REGION/REQUEST, POST /orders\n";
    typed(StatusCode::NOT_FOUND, known.into(), "text/plain; charset=utf-8")
}

/// A file of the page.
fn file(path: &str, headers: &HeaderMap) -> Option<BoardAnswer> {
    let known = headers.get(header::IF_NONE_MATCH).map(HeaderValue::as_bytes);
    let answer = meridian_page::answer(meridian_page::Host::Up, path, known)?;
    Some(answer.map(|body| Either::Left(Full::new(body))))
}

/// The explanation of a decision, from the gateway of its region.
async fn explain(ends: &Ends, path: &str) -> BoardAnswer {
    let asked = path.trim_start_matches("/explain/").split_once('/');
    let asked = asked.and_then(|(region, id)| {
        let admins = ends.state.borrow().admins.clone();
        let (_, admin) = admins.iter().find(|(name, _)| name == region)?;
        Some(format!("{admin}/admin/explain/{id}"))
    });
    let Some(url) = asked else { return missing() };
    match ends.client.get(&url).await {
        Ok(answer) => typed(StatusCode::OK, answer.body, "application/json"),
        Err(error) => {
            let body = serde_json::json!({ "error": { "message": error.to_string() } }).to_string();
            typed(StatusCode::NOT_FOUND, body.into(), "application/json")
        }
    }
}

async fn order(
    ends: &Ends,
    request: Request<Incoming>,
) -> std::result::Result<(), (StatusCode, String)> {
    let bad = |why: String| (StatusCode::BAD_REQUEST, why);
    // A page of another site can send a form here, but not this type without a preflight.
    let kind = request.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    if kind != Some(b"application/json") {
        return Err(bad("content-type: send application/json".into()));
    }
    let body =
        tokio::time::timeout(PATIENCE, Limited::new(request.into_body(), MOST_BODY).collect());
    let body =
        body.await.map_err(|_| bad(format!("the body did not arrive within {PATIENCE:?}")))?;
    let body = body.map_err(|e| bad(format!("the body cannot be read: {e}")))?.to_bytes();
    let order: Order = serde_json::from_slice(&body).map_err(|e| {
        bad(format!(
            "{e}; send {{\"act\": \"kill\", \"stop\" or \"revive\", \"what\": \"replica\", \"gateway\", \
             \"region\" or \"link\", \"name\": \"us-engine-0\", \"us\" or \"us/eu\"}}"
        ))
    })?;
    let (reply, outcome) = oneshot::channel();
    let over = || (StatusCode::SERVICE_UNAVAILABLE, "the run is over".to_owned());
    ends.orders.send((order, reply)).await.map_err(|_| over())?;
    outcome.await.map_err(|_| over())?.map_err(bad)
}

fn typed(status: StatusCode, body: Bytes, kind: &'static str) -> BoardAnswer {
    let mut answer = Response::new(Either::Left(Full::new(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

/// The first event has the whole hour, later ones its newest points.
fn events(mut state: watch::Receiver<Shown>) -> BoardAnswer {
    let (send, receive) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut had_all = false;
        loop {
            let now = state.borrow_and_update().clone();
            let now = if had_all { now.newest } else { now.whole };
            // Empty before the first poll.
            if !now.is_empty() {
                had_all = true;
                let event = [b"data: ", &now[..], b"\n\n"].concat();
                if send.send(Bytes::from(event)).await.is_err() {
                    return;
                }
            }
            if state.changed().await.is_err() {
                return;
            }
        }
    });
    let mut answer = Response::new(Either::Right(Events(receive)));
    let kind = HeaderValue::from_static("text/event-stream");
    answer.headers_mut().insert(header::CONTENT_TYPE, kind);
    answer
}

/// A body of events.
struct Events(mpsc::Receiver<Bytes>);

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|event| event.map(|bytes| Ok(Frame::data(bytes))))
    }
}
