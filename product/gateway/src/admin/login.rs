//! Browser login: a page that asks for a token and starts a session.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use meridian_page::Host;
use serde::Deserialize;

use super::door::{Door, Who, cookies, wrong_token};
use super::sessions::{LASTS, Sessions};
use super::tls::Caller;
use crate::http::body::Body;
use crate::refusal::{Refusal, json};

/// Largest login body, bytes.
const MOST_BODY: usize = 4096;
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LogIn {
    token: String,
}

/// Whether this module answers the path.
pub(super) fn serves(path: &str) -> bool {
    ["/login", "/login.js", "/logout"].contains(&path)
}

/// Answers the requests of a browser without a session, and its logout.
pub(super) async fn answer(
    door: &Door,
    sessions: &Sessions,
    caller: &Caller,
    request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/login") if is_inside(door, sessions, caller, request.headers()) => {
            Ok(go_to("/"))
        }
        (&Method::GET, path) if path != "/logout" => {
            Ok(file(path, request.headers()).expect("the login is among the page's files"))
        }
        (&Method::POST, "/login") => log_in(door, sessions, caller, request).await,
        (&Method::POST, "/logout") => {
            for id in cookies(request.headers(), &caller.cookie()) {
                sessions.end(id);
            }
            let mut response = json(StatusCode::OK, Bytes::from_static(b"{}"));
            set_cookie(&mut response, caller, "", 0);
            Ok(response)
        }
        (_, "/logout") => Err(Refusal::wrong_method("POST")),
        (_, "/login.js") => Err(Refusal::wrong_method("GET")),
        _ => Err(Refusal::wrong_method("GET, POST")),
    }
}

/// A static file of the page; it is the same for everyone, so it needs no session.
pub(super) fn asset(method: &Method, path: &str, headers: &HeaderMap) -> Option<Response<Body>> {
    let is_static = *method == Method::GET && path != "/";
    is_static.then(|| file(path, headers)).flatten()
}

fn file(path: &str, headers: &HeaderMap) -> Option<Response<Body>> {
    let known = headers.get(header::IF_NONE_MATCH).map(HeaderValue::as_bytes);
    Some(meridian_page::answer(Host::Gateway, path, known)?.map(Body::new))
}

/// `GET /`: the page, or the way to the login for a browser without a session.
pub(super) fn index(
    door: &Door,
    admitted: Result<Who, Refusal>,
    headers: &HeaderMap,
) -> Result<Response<Body>, Refusal> {
    match admitted {
        Ok(_) => Ok(file("/", headers).expect("the page has a start")),
        Err(refusal) if door.tokens.is_empty() || headers.contains_key(header::AUTHORIZATION) => {
            Err(refusal)
        }
        Err(_) => Ok(go_to("/login")),
    }
}

fn go_to(path: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::default());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let headers = response.headers_mut();
    headers.insert(header::LOCATION, HeaderValue::from_static(path));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Whether a browser has a session already.
fn is_inside(door: &Door, sessions: &Sessions, caller: &Caller, headers: &HeaderMap) -> bool {
    let admitted = door.admit(&Method::GET, headers, caller, sessions);
    matches!(admitted, Ok(Who::Browser(_)))
}

async fn log_in(
    door: &Door,
    sessions: &Sessions,
    caller: &Caller,
    request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    if door.tokens.is_empty() {
        let message = "this port has no tokens; add the hash of one to `admin_access.tokens`";
        return Err(Refusal::new(StatusCode::NOT_FOUND, "no_login", message));
    }
    let address = caller.address.ip();
    // The error shows nothing of the body: it may be the token.
    let bad = || {
        let message = "the body is not a log-in; send {\"token\": \"...\"}";
        Refusal::new(StatusCode::BAD_REQUEST, "invalid_login", message)
    };
    let body = Limited::new(request.into_body(), MOST_BODY).collect().await.map_err(|_| bad())?;
    let given: LogIn = serde_json::from_slice(&body.to_bytes()).map_err(|_| bad())?;
    let known = sessions.log_in(address, || door.knows(given.token.trim().as_bytes()));
    let known = known.map_err(|wait| {
        let message = "too many failed log-ins from this address; wait a minute";
        let refusal = Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too_many_log_ins", message);
        refusal.retry_after(wait)
    })?;
    let Some(token) = known else {
        tracing::warn!(%address, "a log-in at the admin port failed");
        return Err(wrong_token());
    };
    let started = sessions.begin(token).ok_or_else(|| {
        let message =
            "the system has no source of random numbers; send the token with each request instead";
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "no_randomness", message)
    });
    let (id, session) = started?;
    tracing::info!(%address, "a browser logged in at the admin port");
    let mut response = json(StatusCode::OK, said(&Who::Browser(session)));
    set_cookie(&mut response, caller, &id, LASTS.as_secs());
    Ok(response)
}

fn set_cookie(response: &mut Response<Body>, caller: &Caller, id: &str, seconds: u64) {
    let secure = if caller.tls { "; Secure" } else { "" };
    let cookie = caller.cookie();
    let text =
        format!("{cookie}={id}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    let value = HeaderValue::try_from(text).expect("hex digits and fixed words are a header");
    response.headers_mut().insert(header::SET_COOKIE, value);
    let never = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, never);
}

/// `GET /admin/session`: the caller, and the token that a browser's changes need.
pub(super) fn session(who: &Who) -> Response<Body> {
    let mut response = json(StatusCode::OK, said(who));
    let never = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, never);
    response
}

fn said(who: &Who) -> Bytes {
    let said = match who {
        Who::Anyone => serde_json::json!({"by": "anyone"}),
        Who::Token => serde_json::json!({"by": "token"}),
        Who::Party(party) => serde_json::json!({"by": "certificate", "name": party.name()}),
        Who::Browser(session) => {
            let left = session.ends.saturating_duration_since(tokio::time::Instant::now());
            serde_json::json!({
                "by": "browser", "csrf": session.csrf, "ends_in_s": left.as_secs()
            })
        }
    };
    said.to_string().into()
}
