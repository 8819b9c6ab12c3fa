//! Further parts of the client port: health, readiness, HEAD, CORS, and the engine paths that are
//! served by default.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use meridian_config::Gateway as Config;
use meridian_protocol::units::Size;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::{Answer, Region, Replica, Script, call, chat, get, post, request, stream_chat};

const MS: Duration = Duration::from_millis(1);
const PAGE: &str = "https://app.example.org";

/// Configures a tenant whose key is `sixteen letters and more`.
fn name_tenant(config: &mut Config) {
    let key = meridian_config::KeyHash::of(b"sixteen letters and more");
    let yaml = format!("version: 1\ntenants:\n  - {{name: acme, keys: [\"{key}\"]}}\n");
    config.tenants = Config::read(&yaml).unwrap().tenants;
}

fn permit(config: &mut Config, origins: &str) {
    let yaml = format!("version: 1\ncors: {{origins: [\"{origins}\"], max_age: 1h}}\n");
    config.cors = Config::read(&yaml).unwrap().cors;
}

/// The same request as sent by a page of `origin`.
fn from(origin: &str, mut request: Request<Full<Bytes>>) -> Request<Full<Bytes>> {
    request.headers_mut().insert("origin", origin.parse().unwrap());
    request
}

/// A browser's preflight before a page's request.
async fn preflight(region: &Region, origin: &str, path: &str) -> Answer {
    let mut asked = from(origin, request("OPTIONS", path, ""));
    let headers = asked.headers_mut();
    headers.insert("access-control-request-method", "POST".parse().unwrap());
    headers.insert("access-control-request-headers", "authorization,x-any".parse().unwrap());
    call(region.listen, asked).await
}

// Health checks on the client port need no key: health while the process serves, readiness as on
// the admin port. HEAD is GET without a body.
#[tokio::test(start_paused = true)]
async fn health_and_readiness() {
    let replica = Replica::start().await;
    let mut region = Region::with(&[&replica], name_tenant).await;
    for (path, body) in [("/health", "ok"), ("/ready", "ready"), ("/health?x=1", "ok")] {
        let answer = get(region.listen, path).await;
        assert_eq!((answer.status, answer.text()), (200, body), "{path}");
        let head = call(region.listen, request("HEAD", path, "")).await;
        assert_eq!((head.status, head.text()), (200, ""), "{path}");
        assert_eq!(head.header("content-length"), body.len().to_string());
    }
    replica.stop().await;
    region.until("the replica is down", |s| s.replicas[0].state == "down").await;
    assert_eq!(get(region.listen, "/ready").await.status, 503);
    assert_eq!(get(region.admin, "/ready").await.status, 503);
    assert_eq!(get(region.listen, "/health").await.status, 200);
    // An open connection sees the gateway shut down.
    let mut open = TcpStream::connect(region.listen).await.unwrap();
    open.write_all(b"GET /heal").await.unwrap();
    tokio::time::sleep(MS).await;
    region.shut_down();
    open.write_all(b"th HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut said = String::new();
    open.read_to_string(&mut said).await.unwrap();
    assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
}

// HEAD of the model list has its length and no body, over HTTP/1.1; it needs a key like GET.
#[tokio::test(start_paused = true)]
async fn head_of_models() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    for path in ["/v1/models", "/v1/models/m", "/v1/models/other"] {
        let whole = get(region.listen, path).await;
        let head = call(region.listen, request("HEAD", path, "")).await;
        assert_eq!((head.status, head.text()), (whole.status, ""), "{path}");
        assert_eq!(head.header("content-length"), whole.body.len().to_string(), "{path}");
    }
    let region = Region::with(&[&replica], name_tenant).await;
    assert_eq!(call(region.listen, request("HEAD", "/v1/models", "")).await.status, 401);
}

// The engines' tokenizers and Anthropic's token count are served without `paths`, with the same
// checks of keys, models and limits as prompts, by the replicas of the model.
#[tokio::test(start_paused = true)]
async fn tokenizers_are_served() {
    let (m, n) = (Replica::start().await, Replica::of(&["n"]).await);
    let region = Region::with(&[&m, &n], |c| c.limits.body = Size::kib(4)).await;
    for path in ["/tokenize", "/detokenize", "/v1/messages/count_tokens"] {
        let body = r#"{"model":"n","prompt":"hi","messages":[],"tokens":[1]}"#;
        let answer = post(region.listen, path, body).await;
        assert_eq!((answer.status, answer.header("x-meridian-replica")), (200, "r1"), "{path}");
        assert_eq!((n.last().target.as_str(), n.last().text()), (path, body));
        let unknown = post(region.listen, path, r#"{"model":"other"}"#).await;
        assert_eq!(unknown.status, 404, "{path}");
        let large = post(region.listen, path, &"x".repeat(5 << 10)).await;
        assert_eq!(large.status, 413, "{path}");
    }
    // Errors have the form of the API that the path belongs to.
    let error = post(region.listen, "/v1/messages/count_tokens", r#"{"model":"x"}"#).await;
    assert_eq!(error.json()["error"]["type"], "not_found_error");
    assert_eq!(
        post(region.listen, "/tokenize", r#"{"model":"x"}"#).await.code(),
        "model_not_found"
    );
    assert_eq!(region.settled().await.requests.done, 3);
    let region = Region::with(&[&m], name_tenant).await;
    assert_eq!(post(region.listen, "/tokenize", "{}").await.status, 401);
    // Anthropic's library sends its key in a different header.
    let mut keyed = request("POST", "/v1/messages/count_tokens", r#"{"model":"m","messages":[]}"#);
    keyed.headers_mut().insert("x-api-key", "sixteen letters and more".parse().unwrap());
    assert_eq!(call(region.listen, keyed).await.status, 200);
    assert_eq!(m.last().header("x-api-key"), None);
}

// Pages of the configured origins may send requests and read answers, including refusals and
// streams; pages of others may not. An engine's own headers have no effect.
#[tokio::test(start_paused = true)]
async fn pages_of_named_origins() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |c| permit(c, PAGE)).await;
    let asked = preflight(&region, PAGE, "/v1/chat/completions").await;
    assert_eq!((asked.status, asked.text()), (204, ""));
    for (name, value) in [
        ("access-control-allow-origin", PAGE),
        ("access-control-allow-methods", "GET, HEAD, POST"),
        ("access-control-allow-headers", "authorization,x-any"),
        ("access-control-max-age", "3600"),
        ("vary", "origin"),
    ] {
        assert_eq!(asked.header(name), value, "{name}");
    }
    let open = "access-control-allow-origin: *\r\naccess-control-allow-credentials: true\r\n";
    replica.always(Script::answer(200, open, "{}"));
    let answer = call(region.listen, from(PAGE, chat("hi"))).await;
    replica.then(Script::stream(
        &["data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n", "data: [DONE]\n\n"],
        MS,
    ));
    let stream = call(region.listen, from(PAGE, stream_chat("hi"))).await;
    let refusal = call(region.listen, from(PAGE, request("GET", "/nothing", ""))).await;
    let unread = call(region.listen, from(PAGE, request("POST", "/v1/completions", "{"))).await;
    for (answer, status) in [(answer, 200), (stream, 200), (refusal, 404), (unread, 400)] {
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (status, PAGE));
        let exposed = answer.header("access-control-expose-headers");
        for name in ["x-request-id", "x-meridian-replica", "x-meridian-refused", "retry-after"] {
            assert!(exposed.split(", ").any(|n| n == name), "{name} in {exposed}");
        }
        assert_eq!(answer.header("vary"), "origin");
        assert_eq!(answer.header("access-control-allow-credentials"), "");
    }
    let evil = "https://evil.example.org";
    let asked = preflight(&region, evil, "/v1/chat/completions").await;
    assert_eq!((asked.status, asked.code().as_str()), (403, "origin_not_allowed"));
    assert!(asked.text().contains("cors.origins") && !asked.text().contains("evil"));
    let answer = call(region.listen, from(evil, chat("hi"))).await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, ""));
    assert_eq!(answer.header("vary"), "origin");
    // Clients other than browsers get the engine's answer unchanged.
    assert_eq!(call(region.listen, chat("hi")).await.header("access-control-allow-origin"), "*");
    region.settled().await;
}

// Without `cors` no page may read anything, whatever the engine permits. With `*` every page may;
// if tenants are configured it still needs a key, which a preflight can't have.
#[tokio::test(start_paused = true)]
async fn pages_of_no_origin_and_of_all() {
    let replica = Replica::start().await;
    replica.always(Script::answer(200, "access-control-allow-origin: *\r\n", "{}"));
    let region = Region::of(&[&replica]).await;
    assert_eq!(preflight(&region, PAGE, "/v1/chat/completions").await.status, 403);
    let answer = call(region.listen, from(PAGE, chat("hi"))).await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, ""));
    let region = Region::with(&[&replica], |c| {
        permit(c, "*");
        name_tenant(c);
    })
    .await;
    let asked = preflight(&region, "null", "/v1/models").await;
    assert_eq!((asked.status, asked.header("access-control-allow-origin")), (204, "*"));
    assert_eq!(asked.header("vary"), "");
    let answer = call(region.listen, from(PAGE, chat("hi"))).await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (401, "*"));
    let mut keyed = from(PAGE, chat("hi"));
    keyed.headers_mut().insert("authorization", "Bearer sixteen letters and more".parse().unwrap());
    assert_eq!(call(region.listen, keyed).await.status, 200);
    region.settled().await;
}

// A request may have as many header fields as limits.headers allows at 1 KiB each, and at least
// a hundred. The refusal names both limits.
#[tokio::test(start_paused = true)]
async fn header_fields() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let with = |n: usize| {
        let mut asked = request("GET", "/v1/models", "");
        for i in 1..n {
            let name: http::HeaderName = format!("x-{i}").parse().unwrap();
            asked.headers_mut().insert(name, "y".parse().unwrap());
        }
        asked
    };
    assert_eq!(call(region.listen, with(100)).await.status, 200);
    let refused = call(region.listen, with(101)).await;
    assert_eq!((refused.status, refused.code().as_str()), (431, "headers_too_large"));
    for part in ["65536 bytes", "100 headers", "limits.headers"] {
        assert!(refused.text().contains(part), "{}", refused.text());
    }
    let page = get(region.admin, "/metrics").await;
    assert!(page.text().contains("meridian_refusals_total{reason=\"headers_too_large\"} 1"));
}

// A replica's answer passes unchanged although a piece of it looks like the HTTP library's own
// answer to an invalid request. An actual invalid request after it is answered in turn.
#[tokio::test(start_paused = true)]
async fn answers_that_look_like_errors() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let piece = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    replica.always(Script::head(2 * piece.len()).wait(MS).send(piece).wait(MS).send(piece));
    assert_eq!(call(region.listen, chat("hi")).await.text(), piece.repeat(2));
    let body = r#"{"model":"m","messages":[]}"#;
    let sent = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}(\r\n\r\n",
        body.len()
    );
    let mut client = TcpStream::connect(region.listen).await.unwrap();
    client.write_all(sent.as_bytes()).await.unwrap();
    let mut said = String::new();
    client.read_to_string(&mut said).await.unwrap();
    let (_, rest) = said.split_once(&piece.repeat(2)).unwrap_or_else(|| panic!("{said}"));
    assert!(rest.starts_with("HTTP/1.1 400 ") && rest.contains("malformed_request"), "{rest}");
    assert_eq!(region.settled().await.requests.done, 2);
}
