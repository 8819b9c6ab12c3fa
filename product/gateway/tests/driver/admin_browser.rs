//! The admin port and web pages of other sites: their requests change and read nothing.

use http::Request;
use http_body_util::Full;

use crate::common::{Answer, Region, Replica, call};

type Headers<'a> = &'a [(&'a str, &'a str)];

const JSON: (&str, &str) = ("content-type", "application/json");
const HERE: (&str, &str) = ("host", "127.0.0.1:8081");

/// A request with exactly these headers.
pub(crate) async fn raw(
    region: &Region,
    method: &str,
    path: &str,
    body: &str,
    headers: Headers<'_>,
) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    call(region.admin, request.body(Full::new(body.to_owned().into())).unwrap()).await
}

// A page of another site can send a form or plain text, and any request once its own name resolves
// to this address. None of them adds or removes a replica.
#[tokio::test(start_paused = true)]
async fn pages_of_other_sites_change_nothing() {
    let replica = Replica::start().await;
    let region = Region::of(&[&replica]).await;
    let other = Replica::start().await;
    let add = format!(r#"{{"url":"{}"}}"#, other.url());
    let add = ("POST", "/admin/replicas", add.as_str());
    let remove = ("DELETE", "/admin/replicas/r0", "");
    let cases: [(_, Headers<'_>, _); 9] = [
        (add, &[HERE, ("content-type", "text/plain")], (415, "not_json")),
        (add, &[HERE, ("content-type", "application/x-www-form-urlencoded")], (415, "not_json")),
        (add, &[HERE], (415, "not_json")),
        (add, &[HERE, JSON, ("origin", "http://evil.example")], (403, "foreign_origin")),
        (add, &[("host", "evil.example:8081"), JSON], (403, "foreign_host")),
        (add, &[HERE, JSON, ("sec-fetch-site", "cross-site")], (403, "foreign_site")),
        (remove, &[HERE, ("origin", "null")], (403, "foreign_origin")),
        (remove, &[HERE, ("sec-fetch-site", "same-site")], (403, "foreign_site")),
        (remove, &[("host", "evil.example:8081")], (403, "foreign_host")),
    ];
    for ((method, path, body), headers, expected) in cases {
        let answer = raw(&region, method, path, body, headers).await;
        let code = answer.code();
        assert_eq!((answer.status, code.as_str()), expected, "{method} {headers:?}");
    }
    assert_eq!(region.status().await.replicas.len(), 1);
    let own: Headers<'_> =
        &[HERE, JSON, ("origin", "http://127.0.0.1:8081"), ("sec-fetch-site", "same-origin")];
    let (method, path, body) = add;
    assert_eq!(raw(&region, method, path, body, own).await.status, 201);
}

// A page whose name was rebound to this address reads nothing. Configured names work, and health
// checks work with any name.
#[tokio::test(start_paused = true)]
async fn pages_of_other_sites_read_nothing() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |config| {
        config.admin_access.hosts = vec!["gw.example.org".to_owned()];
    })
    .await;
    let get = async |path: &str, host: &str| {
        raw(&region, "GET", path, "", &[("host", host)]).await.status
    };
    for path in
        ["/admin/status", "/admin/replicas", "/admin/config", "/metrics", "/admin/decisions"]
    {
        assert_eq!(get(path, "evil.example").await, 403, "{path}");
        assert_eq!(get(path, "gw.example.org:8081").await, 200, "{path}");
        assert_eq!(get(path, "[::1]:8081").await, 200, "{path}");
    }
    for path in ["/health", "/ready"] {
        assert_eq!(get(path, "gateway.default.svc").await, 200, "{path}");
    }
}

// `drain` is read in the usual spellings; a misspelt value is refused, and removes nothing.
#[tokio::test(start_paused = true)]
async fn parameters_are_read_strictly() {
    let (a, b) = (Replica::start().await, Replica::start().await);
    let region = Region::of(&[&a, &b]).await;
    for (query, part) in [
        ("drain=ture", "drain: `ture` is not a yes or no; use true or false"),
        ("drain=", "drain: `` is not a yes or no"),
        ("dry=1", "?dry: is not a parameter of this request; use drain"),
        ("drain=1&drain=0", "?drain: is given twice"),
    ] {
        let answer = region.admin("DELETE", &format!("/admin/replicas/r0?{query}"), "").await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_parameter"), "{query}");
        assert!(answer.text().contains(part), "{query}: {}", answer.text());
    }
    for query in ["last=0", "last=x", "last=1001", "lst=3"] {
        let answer = region.admin("GET", &format!("/admin/decisions?{query}"), "").await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_parameter"), "{query}");
    }
    assert_eq!(region.admin("GET", "/admin/status?verbose=1", "").await.status, 400);
    assert_eq!(region.status().await.replicas.len(), 2);
    assert_eq!(region.admin("DELETE", "/admin/replicas/r0?drain=1", "").await.status, 202);
    assert_eq!(region.admin("DELETE", "/admin/replicas/r1?drain=False", "").await.status, 200);
    region.until("both have left", |s| s.replicas.is_empty()).await;
}
