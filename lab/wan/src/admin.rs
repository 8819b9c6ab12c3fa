//! The relay's admin port: its state, and changes of links and routes at run time.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{SetLink, SetRoute};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::de::DeserializeOwned;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::routes::{Directed, Shared};
use super::view;

/// The largest request, bytes.
const MOST_BODY: usize = 64 << 10;
/// The most connections at once; more wait to be accepted.
const MOST_CONNECTIONS: usize = 64;
/// Timeout for a client's headers, and for its body.
const PATIENCE: Duration = Duration::from_secs(10);

type AdminAnswer = Response<Full<Bytes>>;

/// Serves the admin port until the relay stops.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>, stop: CancellationToken) {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let permit = room.clone().acquire_owned().await.expect("it is never closed");
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let (shared, stop) = (shared.clone(), stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = converse(stream, shared) => {}
                () = stop.cancelled() => {}
            }
            drop(permit);
        });
    }
}

async fn converse(stream: TcpStream, shared: Arc<Shared>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(answer(&shared, request).await) }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    // A client that breaks off is not an error.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(shared: &Shared, request: Request<Incoming>) -> AdminAnswer {
    let path = request.uri().path().to_owned();
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    let method = request.method().clone();
    let done = match (&method, parts.as_slice()) {
        (&Method::GET, ["health"]) => return text(StatusCode::OK, "ok"),
        (&Method::GET, ["admin", "wan"]) => Ok(()),
        (&Method::POST, ["admin", "links", from, to]) => {
            let name = format!("{from}/{to}");
            let is_meant = |link: &Directed| link.from == *from && link.to == *to;
            let set = body::<SetLink>(request).await;
            set.and_then(|set| as_refusal(shared.set_links(&name, &set, is_meant)))
        }
        (&Method::POST, ["admin", "regions", region]) => {
            let is_meant = |link: &Directed| link.from == *region || link.to == *region;
            let set = body::<SetLink>(request).await;
            set.and_then(|set| as_refusal(shared.set_links(region, &set, is_meant)))
        }
        (&Method::POST, ["admin", "routes", name]) => {
            let set = body::<SetRoute>(request).await;
            set.and_then(|set| as_refusal(shared.set_route(name, set)))
        }
        _ => Err(Refusal {
            status: StatusCode::NOT_FOUND,
            code: "unknown_path",
            message: "served here: GET /health /admin/wan, POST /admin/links/FROM/TO \
                      /admin/regions/REGION /admin/routes/NAME"
                .to_owned(),
        }),
    };
    match done {
        Ok(()) => json(StatusCode::OK, &view::state(shared)),
        Err(refusal) => refusal.answer(),
    }
}

/// Why nothing was changed.
struct Refusal {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Refusal {
    fn bad(code: &'static str, message: String) -> Refusal {
        Refusal { status: StatusCode::BAD_REQUEST, code, message }
    }

    fn answer(self) -> AdminAnswer {
        let Refusal { status, code, message } = self;
        json(status, &serde_json::json!({ "error": { "code": code, "message": message } }))
    }
}

fn as_refusal(result: crate::Result<()>) -> Result<(), Refusal> {
    result.map_err(|error| Refusal::bad("invalid_setting", error.to_string()))
}

async fn body<T: DeserializeOwned>(request: Request<Incoming>) -> Result<T, Refusal> {
    let bad = |why: String| Refusal::bad("invalid_body", why);
    let body = Limited::new(request.into_body(), MOST_BODY).collect();
    let body = tokio::time::timeout(PATIENCE, body)
        .await
        .map_err(|_| bad(format!("the body did not arrive within {PATIENCE:?}; send it whole")))?
        .map_err(|e| bad(format!("the body cannot be read: {e}; send at most {MOST_BODY} bytes")))?
        .to_bytes();
    serde_json::from_slice(&body).map_err(|e| {
        bad(format!(
            "{e}; send an object like {{\"state\": \"cut\"}}, {{\"delay\": \"80ms\", \"rate\": \
             \"1MiB/s\"}} or, for a route, {{\"target\": \"127.0.0.1:9001\"}}"
        ))
    })
}

fn json(status: StatusCode, value: &impl serde::Serialize) -> AdminAnswer {
    let body = serde_json::to_vec_pretty(value).expect("the state always serializes");
    typed(status, body.into(), "application/json")
}

fn text(status: StatusCode, text: &'static str) -> AdminAnswer {
    typed(status, Bytes::from_static(text.as_bytes()), "text/plain; charset=utf-8")
}

fn typed(status: StatusCode, body: Bytes, kind: &'static str) -> AdminAnswer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}
