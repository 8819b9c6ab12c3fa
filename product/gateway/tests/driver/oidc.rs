//! Tokens of identity providers: a tenant with a token is served as one with a key, and the keys of
//! issuers are followed in the background.

use std::sync::Arc;
use std::time::Duration;

use meridian_config::{Gateway as Config, TenantLimits};
use meridian_gateway::Given;
use meridian_protocol::admin::{Issuer as IssuerStatus, Status};
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;

use crate::admin::Lines;
use crate::common::{
    Answer, Issuer, Region, Replica, Script, Signer, call, chat, config, open, request,
    stream_chat, unsigned,
};
use crate::residency::{World, kept};
use crate::tenants::{bearing, tenant};

const KEY: &str = "mk-0123456789abcdefghij";
const OTHER: &str = "mk-zyxwvutsrqponmlkjihg";

/// Tenants with keys, and an issuer whose tokens name them, too.
fn with(config: &mut Config, issuer: &Issuer, more: &str) {
    config.tenants = vec![tenant("acme", KEY), tenant("other", OTHER)];
    config.oidc = vec![issuer.section(more)];
}

fn only(status: &Status) -> &IssuerStatus {
    assert_eq!(status.issuers.len(), 1);
    &status.issuers[0]
}

/// A gateway that has the issuer's keys.
async fn region(replica: &Replica, issuer: &Issuer, more: &str) -> Region {
    let region = Region::with(&[replica], |config| with(config, issuer, more)).await;
    region.until("the keys are fetched", |s| only(s).keys > 0).await;
    region
}

async fn ask(region: &Region, credential: &str) -> Answer {
    call(region.listen, bearing(chat("hi"), credential)).await
}

async fn said(region: &Region, credential: &str) -> (u16, String) {
    let answer = ask(region, credential).await;
    let code = if answer.status == 200 { String::new() } else { answer.code() };
    (answer.status, code)
}

// Tokens work on every path, in either header, next to keys. They stay here: no replica, log or page
// has one.
#[tokio::test(start_paused = true)]
async fn a_token_opens_and_stays() {
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter("meridian_gateway=trace,meridian_protocol=trace")
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let (rsa, p256) = (Signer::rsa("r"), Signer::p256("p"));
    let (replica, issuer) = (Replica::start().await, Issuer::start(&[&rsa, &p256]).await);
    let region = region(&replica, &issuer, "").await;
    let tokens = [&rsa, &p256].map(|signer| signer.sign(&issuer.claims("acme")));
    for credential in [tokens[0].as_str(), &tokens[1], &tokens[0], KEY] {
        assert_eq!(ask(&region, credential).await.status, 200);
    }
    let mut stream = stream_chat("hi");
    stream.headers_mut().insert("x-tenant-id", "other".parse().unwrap());
    assert_eq!(call(region.listen, bearing(stream, &tokens[0])).await.status, 200);
    let models = call(region.listen, bearing(request("GET", "/v1/models", ""), &tokens[0])).await;
    assert_eq!(models.status, 200);
    let body = r#"{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}"#;
    let mut messages = request("POST", "/v1/messages", body);
    messages.headers_mut().insert("x-api-key", tokens[1].parse().unwrap());
    assert_eq!(call(region.listen, messages).await.status, 200);
    assert_eq!(replica.count(), 6);
    for seen in replica.seen() {
        for name in ["authorization", "x-api-key", "x-tenant-id"] {
            assert_eq!(seen.header(name), None, "{name} of {}", seen.target);
        }
    }
    assert_eq!(ask(&region, &format!("{}x", tokens[0])).await.status, 401);
    let mut texts = vec![lines.text()];
    for page in ["/metrics", "/admin/status", "/admin/config", "/admin/decisions", "/admin/times"] {
        texts.push(region.admin("GET", page, "").await.text().to_owned());
    }
    let parts = tokens.iter().flat_map(|token| token.split('.'));
    for part in parts {
        assert!(!texts.iter().any(|text| text.contains(part)), "{part}");
    }
    assert!(texts[0].contains("issuer's keys fetched"), "{}", texts[0]);
    assert!(texts[1].contains("tenant=\"acme\""), "{}", texts[1]);
}

// Each wrong token is refused with its cause, in the API's form, and reaches no replica. The refusal
// repeats nothing of it. Without a token, the refusal says that one may be sent.
#[tokio::test(start_paused = true)]
async fn wrong_tokens_are_refused() {
    let signer = Signer::rsa("r");
    let (replica, issuer) = (Replica::start().await, Issuer::start(&[&signer]).await);
    let region = region(&replica, &issuer, "claims: {priority: class}").await;
    let with = |name: &str, value: Value| {
        let mut claims = issuer.claims("acme");
        claims[name] = value;
        signer.sign(&claims)
    };
    let none = format!("{}.", unsigned(&json!({"alg": "none"}), &issuer.claims("acme")));
    for (token, status, code) in [
        (none, 401, "invalid_token"),
        (with("pad", json!("x".repeat(9000))), 401, "invalid_token"),
        (with("exp", json!(1_000_000_000)), 401, "token_expired"),
        (with("nbf", json!(100_000_000_000u64)), 401, "token_not_yet_valid"),
        (with("aud", json!("else")), 401, "wrong_audience"),
        (with("iss", json!("https://else.example")), 401, "wrong_issuer"),
        (with("class", json!("urgent")), 401, "invalid_token"),
        (with("sub", json!(["acme", "other"])), 401, "invalid_token"),
        (with("sub", json!("swordfish")), 403, "unknown_tenant"),
        (Signer::p256("r").sign(&issuer.claims("acme")), 401, "invalid_token"),
    ] {
        let answer = ask(&region, &token).await;
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{}", answer.text());
        assert_eq!(answer.header("x-meridian-refused"), code);
        let challenge = if status == 401 { "Bearer error=\"invalid_token\"" } else { "" };
        assert_eq!(answer.header("www-authenticate"), challenge);
        for part in [token.split('.').next().unwrap(), "swordfish", "urgent", "else"] {
            assert!(!answer.text().contains(part), "{part}: {}", answer.text());
        }
    }
    let answer = call(region.listen, chat("hi")).await;
    assert_eq!((answer.status, answer.code().as_str()), (401, "missing_api_key"));
    assert!(answer.text().contains("neither an API key nor a token"), "{}", answer.text());
    assert_eq!(said(&region, "mk-no.token").await, (401, "invalid_api_key".to_owned()));
    assert_eq!(replica.count(), 0);
    let metrics = region.admin("GET", "/metrics", "").await;
    assert!(metrics.text().contains("meridian_refusals_total{reason=\"token_expired\"} 1"));
}

// New keys are fetched soon after a token names one, and tokens of withdrawn keys are refused from
// then on, although they were accepted before.
#[tokio::test(start_paused = true)]
async fn keys_are_exchanged() {
    let (old, new) = (Signer::p256("1"), Signer::p256("2"));
    let (replica, issuer) = (Replica::start().await, Issuer::start(&[&old]).await);
    let region = region(&replica, &issuer, "").await;
    let token = |signer: &Signer| signer.sign(&issuer.claims("acme"));
    let (before, after) = (token(&old), token(&new));
    assert_eq!(ask(&region, &before).await.status, 200);
    issuer.publish(&[&new]);
    for _ in 0..5 {
        assert_eq!(said(&region, &after).await, (401, "invalid_token".to_owned()));
    }
    assert_eq!(ask(&region, &before).await.status, 200);
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(ask(&region, &after).await.status, 200);
    assert_eq!(said(&region, &before).await, (401, "invalid_token".to_owned()));
    assert_eq!(issuer.fetched(), 2);
    // Any number of such tokens causes one fetch in half a minute.
    for _ in 0..20 {
        assert_eq!(ask(&region, &before).await.status, 401);
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    assert!((3..=5).contains(&issuer.fetched()), "{}", issuer.fetched());
}

// Without the issuer's keys, tokens get a 503 and keys work. When the issuer comes up, tokens work;
// when it goes down again, they still do.
#[tokio::test(start_paused = true)]
async fn issuers_go_down() {
    let signer = Signer::rsa("r");
    let (replica, issuer) = (Replica::start().await, Issuer::start(&[&signer]).await);
    issuer.goes_down(true);
    let region = Region::with(&[&replica], |config| with(config, &issuer, "")).await;
    region.until("a fetch has failed", |s| only(s).failures > 1).await;
    let token = signer.sign(&issuer.claims("acme"));
    let answer = ask(&region, &token).await;
    assert_eq!((answer.status, answer.code().as_str()), (503, "issuer_unavailable"));
    assert!(answer.header("retry-after").parse::<u64>().unwrap() >= 1);
    assert_eq!(ask(&region, KEY).await.status, 200);
    let status = region.status().await;
    assert_eq!((only(&status).keys, only(&status).good_s), (0, None));
    assert!(only(&status).trouble.as_ref().is_some_and(|why| why.contains(&issuer.url())));
    issuer.goes_down(false);
    region.until("the keys are fetched", |s| only(s).keys == 1).await;
    assert_eq!(ask(&region, &token).await.status, 200);
    issuer.goes_down(true);
    tokio::time::sleep(Duration::from_secs(400)).await;
    let fresh = signer.sign(&issuer.claims("other"));
    for token in [&token, &fresh] {
        assert_eq!(ask(&region, token).await.status, 200);
    }
    let status = region.status().await;
    assert!(only(&status).trouble.is_some() && only(&status).good_s > Some(300.0));
    let metrics = region.admin("GET", "/metrics", "").await;
    for line in
        ["meridian_issuer_good{issuer=\"ISSUER\"} 0", "meridian_issuer_keys{issuer=\"ISSUER\"} 1"]
    {
        let line = line.replace("ISSUER", &issuer.url());
        assert!(metrics.text().contains(&line), "{}", metrics.text());
    }
}

/// A certificate for this machine, and its server's side.
fn certificate() -> (String, TlsAcceptor) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let crt = params.self_signed(&key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let private = PrivatePkcs8KeyDer::from(key.serialize_der());
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![crt.der().clone()], private.into())
        .unwrap();
    (crt.pem(), TlsAcceptor::from(Arc::new(server)))
}

// Over https, the issuer's certificate has to be of the configured CA; the public ones do not count
// for it. A replaced CA file is used from the next fetch on.
#[tokio::test(start_paused = true)]
async fn https_is_checked() {
    let signer = Signer::p256("p");
    let ((own, tls), (foreign, _)) = (certificate(), certificate());
    let (replica, issuer) = (Replica::start().await, Issuer::over(Some(tls), &[&signer]).await);
    let file = std::env::temp_dir().join(format!("meridian-oidc-ca-{}.pem", std::process::id()));
    std::fs::write(&file, foreign).unwrap();
    let ca = format!("ca: '{}'", file.display());
    let region = Region::with(&[&replica], |config| with(config, &issuer, &ca)).await;
    let status = region.until("a fetch has failed", |s| only(s).failures > 0).await;
    assert!(only(&status).trouble.as_ref().is_some_and(|why| why.contains("no TLS")), "{status:?}");
    std::fs::write(&file, own).unwrap();
    region.until("the keys are fetched", |s| only(s).keys == 1).await;
    std::fs::remove_file(&file).unwrap();
    assert_eq!(ask(&region, &signer.sign(&issuer.claims("acme"))).await.status, 200);
    let public = Region::with(&[&replica], |config| with(config, &issuer, "")).await;
    public.until("a fetch has failed", |s| only(s).failures > 0).await;
}

// A tenant has one set of limits, whether its clients send keys or tokens. A tenant that is not
// configured has none.
#[tokio::test(start_paused = true)]
async fn limits_are_the_tenants() {
    let signer = Signer::p256("p");
    let (replica, issuer) = (Replica::start().await, Issuer::start(&[&signer]).await);
    let region = Region::with(&[&replica], |config| {
        with(config, &issuer, "unknown_tenants: allow");
        config.tenants[0].limits =
            TenantLimits { requests_per_minute: Some(3), ..TenantLimits::default() };
    })
    .await;
    region.until("the keys are fetched", |s| only(s).keys > 0).await;
    let token = |tenant: &str| signer.sign(&issuer.claims(tenant));
    for credential in [&token("acme"), KEY, &token("acme")] {
        assert_eq!(ask(&region, credential).await.status, 200);
    }
    for credential in [&token("acme"), KEY] {
        assert_eq!(ask(&region, credential).await.status, 429);
    }
    let stranger = token("some.one@example.org");
    for _ in 0..5 {
        let answer = ask(&region, &stranger).await;
        assert_eq!((answer.status, answer.header("x-ratelimit-limit-requests")), (200, ""));
    }
    let metrics = region.admin("GET", "/metrics", "").await;
    assert!(!metrics.text().contains("example.org") && metrics.text().contains("tenant=\"other\""));
}

// Stored responses belong to the tenant, not to the token.
#[tokio::test(start_paused = true)]
async fn responses_are_the_tenants() {
    let signer = Signer::p256("p");
    let (replica, issuer) = (Replica::start().await, Issuer::start(&[&signer]).await);
    replica.always(Script::json(200, r#"{"id":"resp_a","object":"response"}"#));
    let region = region(&replica, &issuer, "").await;
    let respond = async |credential: &str, previous: &str| {
        let body = format!(r#"{{"model":"m","input":"hi"{previous}}}"#);
        let request = request("POST", "/v1/responses", &body);
        call(region.listen, bearing(request, credential)).await.status
    };
    let token = |tenant: &str| signer.sign(&issuer.claims(tenant));
    let previous = r#","previous_response_id":"resp_a""#;
    assert_eq!(respond(&token("acme"), "").await, 200);
    for (credential, status) in
        [(token("acme").as_str(), 200), (KEY, 200), (&token("other"), 404), (OTHER, 404)]
    {
        assert_eq!(respond(credential, previous).await, status);
    }
}

// A residency rule holds for tokens, here and at the peer that a request is forwarded to.
#[tokio::test(start_paused = true)]
async fn rules_hold_for_tokens() {
    let signer = Signer::p256("p");
    let issuer = Issuer::start(&[&signer]).await;
    let world = World::of(2).await.each(|config| {
        kept(config, &["eu"]);
        config.oidc = vec![issuer.section("")];
    });
    let regions = world.start().await;
    for region in &regions {
        region.until("the keys are fetched", |s| only(s).keys > 0).await;
    }
    let token = |tenant: &str| signer.sign(&issuer.claims(tenant));
    for region in &regions {
        let answer = ask(region, &token("acme")).await;
        assert_eq!((answer.status, answer.header("x-meridian-region")), (200, "eu"));
        assert_eq!(answer.header("x-meridian-residency"), "kept");
    }
    assert_eq!(world.counts(), [0, 2]);
    let mut stream = open(regions[0].listen, bearing(stream_chat("hi"), &token("acme"))).await;
    assert_eq!(stream.head.headers["x-meridian-region"], "eu");
    assert!(stream.piece().await.is_some());
    for seen in world.replicas[1].seen() {
        assert_eq!(seen.header("authorization"), None);
    }
    assert_eq!(ask(&regions[0], &token("other")).await.header("x-meridian-residency"), "");
}

// Issuers are reloaded with the file: one is added, its rules change, and the last one stays until a
// restart. Without tenants, tokens are the only way in.
#[tokio::test(start_paused = true)]
async fn issuers_are_reloaded() {
    let signer = Signer::p256("p");
    let (replica, issuer) = (Replica::start().await, Issuer::start(&[&signer]).await);
    let mut config = config(&[&replica]);
    config.oidc = vec![issuer.section("unknown_tenants: allow")];
    let file = std::env::temp_dir().join(format!("meridian-oidc-{}.yaml", std::process::id()));
    let write =
        |config: &Config| std::fs::write(&file, config.print_with_secrets().unwrap()).unwrap();
    write(&config);
    let given = Given { config: config.clone(), file: Some(file.clone()), ..config.clone().into() };
    let region = Region::start(given).await;
    region.until("the keys are fetched", |s| only(s).keys > 0 && s.replicas[0].state == "up").await;
    let token = signer.sign(&issuer.claims("acme"));
    assert_eq!(ask(&region, &token).await.status, 200);
    assert_eq!(call(region.listen, chat("hi")).await.status, 401);
    let settle = async || tokio::time::sleep(Duration::from_secs(5)).await;
    config.oidc[0].audience = vec!["else".to_owned()];
    write(&config);
    settle().await;
    assert_eq!(said(&region, &token).await, (401, "wrong_audience".to_owned()));
    let second = Issuer::start(&[&signer]).await;
    config.oidc.insert(0, second.section("unknown_tenants: allow"));
    write(&config);
    settle().await;
    let of_second = signer.sign(&second.claims("acme"));
    assert_eq!(ask(&region, &of_second).await.status, 200);
    let page = region.admin("GET", "/admin/config", "").await;
    assert_eq!(page.json()["oidc"][0]["issuer"], second.url());
    config.oidc.clear();
    config.tenants = vec![tenant("acme", KEY)];
    write(&config);
    settle().await;
    assert_eq!(ask(&region, &of_second).await.status, 200);
    assert_eq!(ask(&region, KEY).await.status, 401);
    std::fs::remove_file(&file).unwrap();
}
