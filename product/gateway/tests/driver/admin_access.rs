//! Access control of the admin port: tokens, certificates of the fleet, browsers that log in.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use meridian_config::{AdminTls, Gateway as Config, KeyHash};
use meridian_gateway::Given;
use meridian_protocol::peer::{Identity, Party};
use meridian_tls::{Files, client, open_client};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::admin_browser::raw;
use crate::common::{Answer, Fleet, Region, Replica, config};
use crate::tenants::tenant;

const TOKEN: &str = "mk-0123456789abcdefghij";
const OTHER: &str = "mk-zyxwvutsrqponmlkjihg";
const BEARER: (&str, &str) = ("authorization", "Bearer mk-0123456789abcdefghij");
const JSON: (&str, &str) = ("content-type", "application/json");

fn tokens(tokens: &[&str]) -> Vec<KeyHash> {
    tokens.iter().map(|token| KeyHash::of(token.as_bytes())).collect()
}

async fn guarded(replica: &Replica) -> Region {
    let mut config = config(&[replica]);
    config.admin_access.tokens = tokens(&[TOKEN]);
    Region::start(config).await
}

fn host(region: &Region) -> String {
    region.admin.to_string()
}

fn refused(answer: &Answer) -> (u16, String) {
    (answer.status, answer.code())
}

fn no(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

// With a token configured, every page and every change requires it, except health checks. A token
// that is wrong or sent in another way is refused.
#[tokio::test(start_paused = true)]
async fn a_token_guards_everything_but_probes() {
    let replica = Replica::start().await;
    let region = guarded(&replica).await;
    let host = host(&region);
    let host = ("host", host.as_str());
    for path in ["/health", "/login", "/login.js"] {
        assert_eq!(raw(&region, "GET", path, "", &[host]).await.status, 200, "{path}");
    }
    assert_ne!(raw(&region, "GET", "/ready", "", &[host]).await.status, 401);
    let pages = ["/metrics", "/admin/status", "/admin/replicas", "/admin/config", "/admin/session"];
    for path in pages.into_iter().chain(["/admin/decisions", "/admin/explain/x", "/nothing"]) {
        let answer = raw(&region, "GET", path, "", &[host]).await;
        assert_eq!(refused(&answer), no(401, "no_token"), "{path}");
        assert!(answer.text().contains("Authorization: Bearer"), "{}", answer.text());
        for wrong in ["Bearer mk-0123456789abcdefghik", "Bearer ", "Basic mk", TOKEN] {
            let sent = [host, ("authorization", wrong)];
            let answer = raw(&region, "GET", path, "", &sent).await;
            assert_eq!(refused(&answer), no(401, "wrong_token"), "{path} {wrong}");
            assert!(!answer.text().contains("mk-"), "{}", answer.text());
        }
    }
    for path in pages {
        assert_eq!(raw(&region, "GET", path, "", &[host, BEARER]).await.status, 200, "{path}");
    }
    let remove = ("DELETE", "/admin/replicas/r0");
    assert_eq!(refused(&raw(&region, remove.0, remove.1, "", &[host]).await), no(401, "no_token"));
    // A token shows that no rebound page sent the request, whatever its `Host`.
    let named = [("host", "gateway.svc"), BEARER];
    assert_eq!(raw(&region, remove.0, remove.1, "", &named).await.status, 200);
}

/// Writes a gateway's file with these tokens.
fn written(config: &Config, file: &Path, access: &[&str]) {
    let mut config = config.clone();
    config.admin_access.tokens = tokens(access);
    std::fs::write(file, config.print_with_secrets().unwrap()).unwrap();
}

// Tokens are rotated without a restart: both work meanwhile, and a session ends with its token. A
// file without any token, such as a half-written one, does not open the port.
#[tokio::test(start_paused = true)]
async fn tokens_are_exchanged_while_it_serves() {
    let replica = Replica::start().await;
    let mut config = config(&[&replica]);
    config.admin_access.tokens = tokens(&[TOKEN]);
    let file = std::env::temp_dir().join(format!("meridian-tokens-{}.yaml", std::process::id()));
    written(&config, &file, &[TOKEN]);
    let region =
        Region::start(Given { file: Some(file.clone()), ..Given::from(config.clone()) }).await;
    let host = host(&region);
    let bearer = |token: &str| format!("Bearer {token}");
    let (first, second) = (bearer(TOKEN), bearer(OTHER));
    let both = async || {
        let mut statuses = Vec::new();
        for bearer in [&first, &second] {
            let sent = [("host", host.as_str()), ("authorization", bearer.as_str())];
            statuses.push(raw(&region, "GET", "/admin/status", "", &sent).await.status);
        }
        statuses
    };
    let wait = async || tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(both().await, [200, 401]);
    let (cookie, _) = logged_in(&region, TOKEN).await;
    let browser = async || {
        let sent = [("host", host.as_str()), ("cookie", cookie.as_str())];
        raw(&region, "GET", "/admin/status", "", &sent).await.status
    };
    written(&config, &file, &[TOKEN, OTHER]);
    wait().await;
    assert_eq!((both().await, browser().await), (vec![200, 200], 200));
    written(&config, &file, &[OTHER]);
    wait().await;
    assert_eq!((both().await, browser().await), (vec![401, 200], 401));
    written(&config, &file, &[]);
    wait().await;
    assert_eq!(both().await, [401, 200], "the last token goes with a restart only");
    std::fs::remove_file(&file).unwrap();
}

// A refused file has no effect: tenants that it named for the first time do not have to stay in
// later files.
#[tokio::test(start_paused = true)]
async fn a_refused_file_leaves_nothing_behind() {
    let replica = Replica::start().await;
    let mut config = config(&[&replica]);
    config.admin_access.tokens = tokens(&[TOKEN]);
    let file = std::env::temp_dir().join(format!("meridian-refused-{}.yaml", std::process::id()));
    written(&config, &file, &[TOKEN]);
    let region =
        Region::start(Given { file: Some(file.clone()), ..Given::from(config.clone()) }).await;
    let tenants = vec![tenant("acme", OTHER)];
    written(&Config { tenants, ..config.clone() }, &file, &[]);
    tokio::time::sleep(Duration::from_secs(5)).await;
    written(&config, &file, &[OTHER]);
    tokio::time::sleep(Duration::from_secs(5)).await;
    std::fs::remove_file(&file).unwrap();
    let bearer = format!("Bearer {OTHER}");
    let sent = [("host", "127.0.0.1"), ("authorization", bearer.as_str())];
    assert_eq!(raw(&region, "GET", "/admin/status", "", &sent).await.status, 200);
}

/// Logs in; returns the cookie and the CSRF token.
async fn logged_in(region: &Region, token: &str) -> (String, String) {
    let body = format!(r#"{{"token":"{token}"}}"#);
    let answer = raw(region, "POST", "/login", &body, &[("host", &host(region)), JSON]).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let cookie = answer.header("set-cookie");
    for word in ["; HttpOnly", "; SameSite=Strict", "; Path=/", "; Max-Age=43200"] {
        assert!(cookie.contains(word), "{word}: {cookie}");
    }
    assert!(!cookie.contains("Secure"), "plain HTTP would not send it back: {cookie}");
    assert!(!cookie.contains(token), "the cookie is not the token");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    (cookie, answer.json()["csrf"].as_str().unwrap().to_owned())
}

// A browser logs in and reads with its cookie. A change also needs the CSRF token, which the
// session page returns, and the page's own origin. After a logout or half a day the cookie is
// invalid.
#[tokio::test(start_paused = true)]
async fn a_browser_logs_in_and_out() {
    let replica = Replica::start().await;
    let region = guarded(&replica).await;
    let address = host(&region);
    let host = ("host", address.as_str());
    let (cookie, csrf) = logged_in(&region, TOKEN).await;
    // Other cookies of the machine are sent along.
    let several = format!("theme=dark; {cookie}");
    let cookie = ("cookie", several.as_str());
    let session = raw(&region, "GET", "/admin/session", "", &[host, cookie]).await;
    assert_eq!((session.status, session.header("cache-control")), (200, "no-store"));
    let said = session.json();
    assert_eq!((&said["by"], &said["csrf"]), (&"browser".into(), &csrf.as_str().into()));
    let remove = async |headers: &[(&str, &str)]| {
        raw(&region, "DELETE", "/admin/replicas/r0", "", headers).await
    };
    assert_eq!(refused(&remove(&[host, cookie]).await), no(403, "no_csrf_token"));
    let wrong = ("x-meridian-csrf", "0123");
    assert_eq!(refused(&remove(&[host, cookie, wrong]).await), no(403, "no_csrf_token"));
    let csrf = ("x-meridian-csrf", csrf.as_str());
    let foreign = ("origin", "http://127.0.0.1:1");
    let answer = remove(&[host, cookie, csrf, foreign]).await;
    assert_eq!(refused(&answer), no(403, "foreign_origin"));
    assert_eq!(remove(&[host, cookie, csrf]).await.status, 200);

    let out = raw(&region, "POST", "/logout", "", &[host, cookie]).await;
    assert!(out.status == 200 && out.header("set-cookie").contains("Max-Age=0"));
    let status = async |cookie: (&str, &str)| {
        raw(&region, "GET", "/admin/status", "", &[host, cookie]).await.status
    };
    assert_eq!(status(cookie).await, 401, "it logged out");
    let (later, _) = logged_in(&region, TOKEN).await;
    assert_eq!(status(("cookie", &later)).await, 200);
    tokio::time::sleep(Duration::from_secs(12 * 3600 + 1)).await;
    assert_eq!(status(("cookie", &later)).await, 401, "it ended");
}

// An address may try five wrong tokens a minute. After that even the right one waits, and a token
// sent as a header is not a login.
#[tokio::test(start_paused = true)]
async fn log_ins_are_limited() {
    let replica = Replica::start().await;
    let region = guarded(&replica).await;
    let address = host(&region);
    let host = ("host", address.as_str());
    let log_in = async |body: &str| raw(&region, "POST", "/login", body, &[host, JSON]).await;
    assert_eq!(refused(&log_in("{}").await), no(400, "invalid_login"));
    for _ in 0..5 {
        let answer = log_in(&format!(r#"{{"token":"{OTHER}"}}"#)).await;
        assert_eq!(refused(&answer), no(401, "wrong_token"));
        assert!(!answer.text().contains(OTHER) && answer.header("set-cookie").is_empty());
    }
    let right = format!(r#"{{"token":"{TOKEN}"}}"#);
    let answer = log_in(&right).await;
    assert_eq!(refused(&answer), no(429, "too_many_log_ins"));
    assert!(!answer.header("retry-after").is_empty());
    assert_eq!(raw(&region, "GET", "/admin/status", "", &[host, BEARER]).await.status, 200);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(log_in(&right).await.status, 200);
    let foreign = [host, JSON, ("origin", "http://evil.example")];
    let answer = raw(&region, "POST", "/login", &right, &foreign).await;
    assert_eq!(refused(&answer), no(403, "foreign_origin"));
    let form = [host, ("content-type", "text/plain")];
    assert_eq!(raw(&region, "POST", "/login", &right, &form).await.status, 415);
}

// The login page loads nothing from elsewhere and can't be framed; a port without tokens has no
// login.
#[tokio::test(start_paused = true)]
async fn the_log_in_page() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let page = region.admin("GET", "/login", "").await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    let policy = page.header("content-security-policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
    assert!(!page.text().contains("http://") && !page.text().contains("https://"));
    let session = region.admin("GET", "/admin/session", "").await.json();
    assert_eq!(session["by"], "anyone");
    let answer = region.admin("POST", "/login", r#"{"token":"x"}"#).await;
    assert_eq!(refused(&answer), no(404, "no_login"));
}

/// A request over TLS, with or without a certificate; none if there is no answer.
async fn over_tls(
    region: &Region,
    fleet: &Fleet,
    own: Option<&Files>,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
) -> Option<(u16, String)> {
    let config = match own {
        Some(files) => client(files, files.read().unwrap(), &[]).unwrap(),
        None => open_client("-", &fleet.ca(), &[]).unwrap(),
    };
    let stream = TcpStream::connect(region.admin).await.unwrap();
    let name = ServerName::try_from(fleet.identity("us").dns_name()).unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.ok()?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
    tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path).header("host", "gateway.svc");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(bytes::Bytes::from("{}"))).unwrap();
    let answer = sender.send_request(request).await.ok()?;
    let status = answer.status().as_u16();
    let cookie = answer.headers().get("set-cookie").map(|c| c.to_str().unwrap().to_owned());
    let body = answer.into_body().collect().await.ok()?.to_bytes();
    let said: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    let code = said["error"]["code"].as_str().map(str::to_owned);
    Some((status, code.or(cookie).unwrap_or_default()))
}

// Over TLS an operator of the fleet can change everything, its gateways can read, and a certificate
// of another fleet is refused. Clients without a certificate need a token, except for health
// checks. The session's cookie is for TLS only.
#[tokio::test]
async fn certificates_of_the_fleet() {
    let fleet = Fleet::new("admin");
    let replica = Replica::start().await;
    let mut config = fleet.gateway("us", 1, &[&replica]);
    let files = fleet.files("us");
    config.peers = None;
    config.admin_access.tokens = tokens(&[TOKEN]);
    let (ca, certificate, key) = (files.ca, files.certificate, files.key);
    config.admin_access.tls = Some(AdminTls { ca, crl: None, certificate, key });
    let region = Region::start(config).await;
    let alice = fleet.issue(&Party::operator("admin", "alice").unwrap(), "alice");
    let eu = Party::Gateway(Identity::new("admin", "eu", "eu-1").unwrap());
    let eu = fleet.issue(&eu, "eu-1");
    let ask = async |own: Option<&Files>, what: (&str, &str), headers: &[(&str, &str)]| {
        over_tls(&region, &fleet, own, what, &[headers, &[JSON]].concat()).await
    };
    let ok = Some((200, String::new()));
    let status = ("GET", "/admin/status");
    let remove = ("DELETE", "/admin/replicas/r0");
    assert_eq!(ask(None, ("GET", "/health"), &[]).await, ok);
    assert_eq!(ask(None, status, &[]).await, Some(no(401, "no_token")));
    assert_eq!(ask(None, status, &[BEARER]).await, ok);
    assert_eq!(ask(Some(&eu), status, &[]).await, ok);
    assert_eq!(ask(Some(&eu), remove, &[]).await, Some(no(403, "not_yours")));
    assert_eq!(ask(Some(&alice), remove, &[]).await, ok);
    let others = Fleet::new("others");
    let stranger = others.issue(&Party::operator("admin", "alice").unwrap(), "alice");
    let stranger = Files { ca: alice.ca.clone(), ..stranger };
    assert_eq!(ask(Some(&stranger), ("GET", "/health"), &[]).await, None);
}

/// A gateway with the fleet's certificates at its admin port and no tokens, its file, and its
/// reload trigger.
async fn reloaded(config: &Config, name: &str, file: &Config) -> Region {
    let path = std::env::temp_dir().join(format!("meridian-{name}-{}.yaml", std::process::id()));
    std::fs::write(&path, config.print_with_secrets().unwrap()).unwrap();
    let given = Given { file: Some(path.clone()), ..Given::from(config.clone()) };
    let reload = given.reload.clone();
    let region = Region::start(given).await;
    std::fs::write(&path, file.print_with_secrets().unwrap()).unwrap();
    reload.notify_one();
    tokio::time::sleep(Duration::from_millis(100)).await;
    std::fs::remove_file(&path).unwrap();
    region
}

// A file that no longer names certificates for the admin port, or names some for the first time,
// needs a restart: the guarded port stays closed, and the plain one stays open.
#[tokio::test(start_paused = true)]
async fn a_reload_leaves_the_port_as_it_listens() {
    let fleet = Fleet::new("admin");
    let replica = Replica::start().await;
    let mut open = fleet.gateway("us", 1, &[&replica]);
    open.peers = None;
    let files = fleet.files("us");
    let (ca, certificate, key) = (files.ca, files.certificate, files.key);
    let mut closed = open.clone();
    closed.admin_access.tls = Some(AdminTls { ca, crl: None, certificate, key });

    let region = reloaded(&closed, "closed-port", &open).await;
    let status = ("GET", "/admin/status");
    assert_eq!(over_tls(&region, &fleet, None, status, &[]).await, Some(no(401, "no_token")));
    let alice = fleet.issue(&Party::operator("admin", "alice").unwrap(), "alice");
    let ok = Some((200, String::new()));
    assert_eq!(over_tls(&region, &fleet, Some(&alice), status, &[]).await, ok);

    let region = reloaded(&open, "open-port", &closed).await;
    assert_eq!(region.admin("GET", "/admin/status", "").await.status, 200);
    let page = region.admin("GET", "/admin/config", "").await.json();
    assert!(page["admin_access"]["tls"].is_null(), "settings in force: {page}");
}

// A body that never arrives is awaited for ten seconds, before a login is checked as well as after
// a token was.
#[tokio::test(start_paused = true)]
async fn a_body_that_never_comes() {
    let replica = Replica::start().await;
    let region = guarded(&replica).await;
    for path in ["/login", "/admin/replicas"] {
        let mut client = TcpStream::connect(region.admin).await.unwrap();
        let (host, bearer) = (host(&region), BEARER.1);
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: {bearer}\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{{"
        );
        client.write_all(head.as_bytes()).await.unwrap();
        let mut said = String::new();
        let read =
            tokio::time::timeout(Duration::from_secs(3600), client.read_to_string(&mut said));
        read.await.expect("the gateway disconnects within an hour").unwrap();
        assert!(said.starts_with("HTTP/1.1 408 ") && said.contains("client_too_slow"), "{said}");
    }
}

// Concurrent logins have five attempts together.
#[tokio::test(start_paused = true)]
async fn log_ins_side_by_side_are_limited() {
    let replica = Replica::start().await;
    let region = guarded(&replica).await;
    let address = host(&region);
    let body = format!(r#"{{"token":"{OTHER}"}}"#);
    let mut clients = Vec::new();
    // Each has sent all but the last byte when the first one has been read in full.
    let (all_but_one, last) = body.split_at(body.len() - 1);
    for _ in 0..20 {
        let mut client = TcpStream::connect(region.admin).await.unwrap();
        let length = body.len();
        let head = format!(
            "POST /login HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{all_but_one}"
        );
        client.write_all(head.as_bytes()).await.unwrap();
        clients.push(client);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut wrong = 0;
    for mut client in clients {
        client.write_all(last.as_bytes()).await.unwrap();
        let mut said = String::new();
        client.read_to_string(&mut said).await.unwrap();
        wrong += usize::from(said.starts_with("HTTP/1.1 401 "));
    }
    assert_eq!(wrong, 5);
}

// Defect admin-starved: connections that stay silent, or send half a head, do not shut out a client
// with the token, and its own connection outlasts any number of them.
#[tokio::test(start_paused = true)]
async fn silent_connections_shut_nobody_out() {
    let replica = Replica::start().await;
    let region = guarded(&replica).await;
    let host = host(&region);
    let page = format!(
        "GET /admin/session HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {TOKEN}\r\n\r\n"
    );
    let asks = async |stream: &mut TcpStream| {
        stream.write_all(page.as_bytes()).await.unwrap();
        let mut said = vec![0; 4096];
        let length = stream.read(&mut said).await.unwrap();
        String::from_utf8_lossy(&said[..length]).into_owned()
    };
    let mut kept = TcpStream::connect(region.admin).await.unwrap();
    assert!(asks(&mut kept).await.starts_with("HTTP/1.1 200 "));
    let mut silent = Vec::new();
    for n in 0..300 {
        let mut stream = TcpStream::connect(region.admin).await.unwrap();
        if n % 2 == 0 {
            stream.write_all(b"GET / HTTP/1.1\r\nhost: ").await.unwrap();
        }
        silent.push(stream);
    }
    let status = raw(&region, "GET", "/admin/status", "", &[("host", host.as_str()), BEARER]).await;
    assert_eq!(status.status, 200);
    assert!(asks(&mut kept).await.starts_with("HTTP/1.1 200 "));
}
