//! Tenants: a request's tenant is determined by its key, and by nothing else in the request.

use http::{HeaderValue, Request};
use http_body_util::Full;
use meridian_config::{Gateway as Config, Isolation, KeyHash, TellClients, Tenant};

use crate::common::{Region, Replica, call, chat, request};

const KEY: &str = "mk-0123456789abcdefghij";
const OTHER: &str = "mk-zyxwvutsrqponmlkjihg";

pub(crate) fn tenant(name: &str, key: &str) -> Tenant {
    let keys = vec![KeyHash::of(key.as_bytes())];
    Tenant { name: name.to_owned(), keys, ..Tenant::default() }
}

fn two(config: &mut Config) {
    config.tenants = vec![tenant("acme", KEY), tenant("other", OTHER)];
}

/// With a key, as OpenAI's clients send it.
pub(crate) fn bearing(
    mut request: Request<Full<bytes::Bytes>>,
    key: &str,
) -> Request<Full<bytes::Bytes>> {
    let mut value = HeaderValue::from_str(&format!("Bearer {key}")).unwrap();
    value.set_sensitive(true);
    request.headers_mut().insert("authorization", value);
    request
}

// Without a key, or with an unknown one, a request is refused in the API's own form, whatever it
// asks for; it reaches no replica and no page of the gateway.
#[tokio::test(start_paused = true)]
async fn nobody_without_a_key() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], two).await;
    let answer = call(region.listen, chat("hi")).await;
    assert_eq!((answer.status, answer.code().as_str()), (401, "missing_api_key"));
    assert_eq!(answer.json()["error"]["type"], "authentication_error");
    assert_eq!(answer.header("www-authenticate"), "Bearer");
    let answer = call(region.listen, bearing(chat("hi"), "mk-stranger-key-000000")).await;
    assert_eq!((answer.status, answer.code().as_str()), (401, "invalid_api_key"));
    assert!(!answer.text().contains("stranger"), "{}", answer.text());
    let mut named = chat("hi");
    named.headers_mut().insert("x-tenant-id", "acme".parse().unwrap());
    assert_eq!(call(region.listen, named).await.status, 401);
    for (method, path) in [("GET", "/v1/models"), ("GET", "/nowhere"), ("POST", "/v1/responses")] {
        assert_eq!(call(region.listen, request(method, path, "{}")).await.status, 401, "{path}");
    }
    let answer = call(region.listen, request("POST", "/v1/messages", "{}")).await;
    assert_eq!((answer.status, &answer.json()["type"]), (401, &"error".into()));
    assert_eq!(answer.json()["error"]["type"], "authentication_error");
    assert_eq!(replica.count(), 0);
    let metrics = region.admin("GET", "/metrics", "").await;
    assert!(metrics.text().contains("meridian_refusals_total{reason=\"invalid_api_key\"} 1"));
    for page in ["/metrics", "/admin/status", "/admin/config", "/admin/decisions"] {
        let text = region.admin("GET", page, "").await;
        assert!(!text.text().contains("stranger") && !text.text().contains(KEY), "{page}");
    }
}

// The key works in either header, and stays here: a replica sees neither it nor the client's
// claimed name, and no page shows it.
#[tokio::test(start_paused = true)]
async fn a_key_opens_and_stays() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], two).await;
    let mut chat = bearing(chat("hi"), KEY);
    chat.headers_mut().insert("x-tenant-id", "other".parse().unwrap());
    chat.headers_mut().insert("x-api-key", KEY.parse().unwrap());
    assert_eq!(call(region.listen, chat).await.status, 200);
    let body = r#"{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}"#;
    let mut messages = request("POST", "/v1/messages", body);
    messages.headers_mut().insert("x-api-key", OTHER.parse().unwrap());
    assert_eq!(call(region.listen, messages).await.status, 200);
    for seen in replica.seen() {
        for name in ["authorization", "x-api-key", "x-tenant-id"] {
            assert_eq!(seen.header(name), None, "{name} of {}", seen.target);
        }
    }
    for page in ["/metrics", "/admin/status", "/admin/config", "/admin/decisions"] {
        assert!(!region.admin("GET", page, "").await.text().contains(KEY), "{page}");
    }
}

// If tenants share nothing, the key identifies them: the same name in a header does not merge two
// tenants, and the same key under two names stays one.
#[tokio::test(start_paused = true)]
async fn a_name_in_a_header_is_not_believed() {
    let replica = Replica::start().await;
    let region = Region::with(&[&replica], |config| {
        two(config);
        config.policy = serde_json::from_str(r#""meridian""#).unwrap();
        config.isolation = Isolation::Tenant;
        config.tell_clients = Some(TellClients::All);
    })
    .await;
    let long = "the same long beginning of a prompt that fills some blocks ".repeat(20);
    let said = |key: &'static str, name: &'static str| {
        let mut request = bearing(chat(&long), key);
        request.headers_mut().insert("x-tenant-id", name.parse().unwrap());
        request
    };
    let matched = async |request| {
        let answer = call(region.listen, request).await;
        answer.header("x-meridian-prefix-match").parse::<f64>().unwrap()
    };
    assert!(matched(said(KEY, "one")).await < 0.01);
    assert!(matched(said(KEY, "two")).await > 0.5);
    assert!(matched(said(OTHER, "one")).await < 0.01);
}

// The operator configures the replicas' key: it is sent with requests and with the gateway's own
// requests, in place of the client's. Without tenants and without it, a client's own passes
// unchanged.
#[tokio::test(start_paused = true)]
async fn engines_have_a_key_of_their_own() {
    let replica = Replica::start().await;
    let open = Region::of(&[&replica]).await;
    assert_eq!(call(open.listen, bearing(chat("hi"), "clients")).await.status, 200);
    assert_eq!(replica.last().header("authorization"), Some("Bearer clients"));
    let keyed = Region::with(&[&replica], |config| {
        two(config);
        config.engine_key = Some("engines-key".into());
    })
    .await;
    assert_eq!(call(keyed.listen, bearing(chat("hi"), KEY)).await.status, 200);
    assert_eq!(replica.last().header("authorization"), Some("Bearer engines-key"));
    let config = keyed.admin("GET", "/admin/config", "").await;
    assert!(!config.text().contains("engines-key"), "{}", config.text());
}
