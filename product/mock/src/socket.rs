//! Sockets: connections, requests, and the end of an engine.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::exchange::Answer;
use crate::fleet::Engine;
use crate::pages::page;
use crate::state::{Reply, Request};

/// Largest body of a request.
const MAX_BODY: usize = 16 << 20;

type Events = tokio_stream::Iter<std::vec::IntoIter<Result<Frame<Bytes>, Infallible>>>;
type Body = Either<Full<Bytes>, StreamBody<Events>>;

/// Serves an engine until it ends.
pub(crate) async fn serve(listener: TcpListener, engine: Engine) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = engine.dying.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else { break };
        connections.spawn(converse(stream, engine.clone()));
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    engine.closed.cancel();
    while connections.join_next().await.is_some() {}
}

async fn converse(stream: TcpStream, engine: Engine) {
    // An error only costs the delay of small writes.
    let _ = stream.set_nodelay(true);
    let last = Arc::new(AtomicBool::new(false));
    let service = service_fn(|request| answer(request, engine.clone(), last.clone()));
    let mut connection =
        pin!(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        // A client that disconnects is not an error.
        _ = connection.as_mut() => return,
        () = engine.dying.cancelled() => {}
    }
    if last.load(Ordering::Relaxed) {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}

async fn answer(
    request: hyper::Request<Incoming>,
    engine: Engine,
    last: Arc<AtomicBool>,
) -> hyper::Result<Response<Body>> {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    if head.method == Method::GET {
        return Ok(get(&path, &engine));
    }
    // A body that is too long or broken is none.
    let body = Limited::new(body, MAX_BODY).collect().await.map(|body| body.to_bytes());
    let body = body.ok().and_then(|body| serde_json::from_slice(&body).ok());
    let headers = head.headers.keys().map(|name| name.as_str().to_owned()).collect();
    let request = Request { path, headers, body: body.unwrap_or(Value::Null) };
    let reply = engine.state().handle(engine.at, &request, Instant::now());
    Ok(response(match reply {
        Reply::After(time, answer) => {
            let _deferred = (!time.is_zero()).then(|| Deferred::new(engine.clone(), None));
            sleep(time).await;
            answer
        }
        Reply::Last(answer) => {
            last.store(true, Ordering::Relaxed);
            engine.end("parameters with too few blocks, or none");
            engine.closed.cancelled().await;
            answer
        }
        Reply::Hangs => {
            let cause = "parameters without remote_request_id, and then a disconnect";
            let _deferred = Deferred::new(engine.clone(), Some(cause));
            std::future::pending().await
        }
    }))
}

/// A request that waits for KV. After a disconnect it is dropped.
struct Deferred(Engine, Option<&'static str>);

impl Deferred {
    fn new(engine: Engine, ends: Option<&'static str>) -> Deferred {
        let at = engine.at;
        engine.state().engines[at].counts.deferred += 1;
        Deferred(engine, ends)
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        let Deferred(engine, ends) = self;
        engine.state().engines[engine.at].counts.deferred -= 1;
        if let Some(cause) = ends {
            engine.end(cause);
        }
    }
}

fn get(path: &str, engine: &Engine) -> Response<Body> {
    let (status, (kind, body)) = match page(path, &engine.counts()) {
        Some(page) => (200, page),
        // Probes ask for pages of several engines.
        None => (404, ("application/json", r#"{"detail":"Not Found"}"#.to_owned())),
    };
    let headers = vec![("content-type".to_owned(), kind.to_owned())];
    response(Answer { status, headers, body: body.into() })
}

/// A response; a stream has one frame for each event.
fn response(answer: Answer) -> Response<Body> {
    let body = match answer.streams() {
        false => Either::Left(Full::new(answer.body.clone())),
        true => {
            let text = String::from_utf8_lossy(&answer.body);
            let events = text.split_inclusive("\n\n");
            let frames = events.map(|event| Ok(Frame::data(Bytes::from(event.to_owned()))));
            let frames: Vec<_> = frames.collect();
            Either::Right(StreamBody::new(tokio_stream::iter(frames)))
        }
    };
    let mut response = Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    response.body(body).expect("recorded headers are headers")
}
