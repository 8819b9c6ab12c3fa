//! Requests that a web page of another site can send, in paused time: none of them changes or reads
//! anything.

use crate::plane::Plane;
use serde_json::{Value, json};

type Headers<'a> = &'a [(&'a str, &'a str)];

const JSON: (&str, &str) = ("content-type", "application/json");
const HERE: (&str, &str) = ("host", "127.0.0.1:8090");

fn code(said: &(u16, Value)) -> (u16, &str) {
    (said.0, said.1["error"]["code"].as_str().unwrap_or_default())
}

// A form or plain text from another site changes nothing, whatever its contents. Neither does JSON
// with a foreign origin, nor a request with a name that was rebound to this address. The same
// request from curl or from a page of this port works.
#[tokio::test(start_paused = true)]
async fn pages_of_other_sites_change_nothing() {
    let plane = Plane::start("").await;
    plane.ask("PUT", "/admin/regions/eu", json!({})).await;
    let before = plane.snapshot().await;
    let drain = ("POST", "/admin/regions/eu/drain", "");
    let policy = ("PUT", "/admin/regions/eu/policy", r#""round_robin""#);
    let cases: [(_, Headers<'_>, _); 8] = [
        (policy, &[HERE, ("content-type", "text/plain")], (415, "not_json")),
        (policy, &[HERE, ("content-type", "application/x-www-form-urlencoded")], (415, "not_json")),
        (policy, &[HERE], (415, "not_json")),
        (policy, &[HERE, JSON, ("origin", "http://evil.example")], (403, "foreign_origin")),
        (policy, &[("host", "evil.example:8090"), JSON], (403, "foreign_host")),
        (drain, &[HERE, ("origin", "null")], (403, "foreign_origin")),
        (drain, &[HERE, ("sec-fetch-site", "cross-site")], (403, "foreign_site")),
        (drain, &[HERE, ("sec-fetch-site", "same-site")], (403, "foreign_site")),
    ];
    for ((method, path, body), headers, expected) in cases {
        let said = plane.raw(method, path, body, headers).await;
        assert_eq!(code(&said), expected, "{method} {path} {headers:?}: {}", said.1);
    }
    assert_eq!(plane.snapshot().await, before);
    let own: Headers<'_> =
        &[HERE, JSON, ("origin", "http://127.0.0.1:8090"), ("sec-fetch-site", "same-origin")];
    let (method, path, body) = policy;
    assert_eq!(plane.raw(method, path, body, own).await.0, 200);
    assert_eq!(plane.raw(method, path, body, &[HERE, JSON]).await.0, 200);
}

// A rebound page reads nothing. Configured names, a token and health checks work.
#[tokio::test(start_paused = true)]
async fn pages_of_other_sites_read_nothing() {
    let token = "0123456789abcdef";
    let more = format!("admin_hosts: [control.example.org]\ntoken: {token}\n");
    let plane = Plane::start(&more).await;
    let bearer = format!("Bearer {token}");
    let status =
        async |path: &str, headers: Headers<'_>| code(&plane.raw("GET", path, "", headers).await).0;
    for path in ["/admin/registry", "/admin/status", "/metrics", "/admin/watch"] {
        assert_eq!(status(path, &[("host", "evil.example")]).await, 403, "{path}");
    }
    assert_eq!(status("/health", &[("host", "evil.example")]).await, 200);
    let named = [("host", "control.example.org:8090"), ("authorization", bearer.as_str())];
    assert_eq!(status("/admin/registry", &named).await, 200);
    assert_eq!(status("/admin/registry", &named[..1]).await, 401);
    let proven = [("host", "control.svc"), ("authorization", bearer.as_str())];
    assert_eq!(status("/admin/registry", &proven).await, 200);
    let guessed = [("host", "control.svc"), ("authorization", "Bearer 0123456789abcdee")];
    assert_eq!(status("/admin/registry", &guessed).await, 403);
}
