//! Verification of tokens: each way in which one can be wrong, and tenants and classes of good ones.

#![allow(clippy::unwrap_used)]

use meridian_config::Gateway as Config;
use ring::hmac;
use serde_json::{Value, json};

use super::*;

#[path = "../../../tests/driver/common/tokens.rs"]
mod tokens;

use tokens::{Signer, base64, unsigned};

const ISSUER: &str = "https://a.example";
const NOW: u64 = 1_800_000_000;

/// One issuer with two keys.
struct World {
    issuers: Issuers,
    kept: KeptIssuers,
    rsa: Signer,
    p256: Signer,
}

/// With further fields of the issuer's section.
fn world(more: &str) -> World {
    let yaml = format!(
        "version: 1\ntenants: [{{name: acme, priority: high}}, {{name: other}}]\noidc:\n  - {{issuer: '{ISSUER}', audience: [meridian, m2], {more}}}\n  - {{issuer: 'https://b.example', audience: [meridian]}}\n"
    );
    let config = Config::read(&yaml).unwrap();
    let kept = KeptIssuers::default();
    let issuers = Issuers::new(&config.oidc, &kept).unwrap();
    let world = World { issuers, kept, rsa: Signer::rsa("r"), p256: Signer::p256("p") };
    world.publish(&[&world.rsa, &world.p256]);
    world
}

impl World {
    fn publish(&self, signers: &[&Signer]) {
        let keys: Vec<Value> = signers.iter().map(|signer| signer.jwk()).collect();
        self.issuers.all[0].1.end(Ok(json!({"keys": keys}).to_string()));
    }

    fn holder(&self, token: &str) -> Result<Holder, Wrong> {
        let listed = |name: &HeaderValue| match name.as_bytes() {
            b"acme" => Some(Listed { at: 0, priority: Priority::High }),
            b"other" => Some(Listed { at: 1, priority: Priority::Normal }),
            _ => None,
        };
        self.issuers.holder(token.as_bytes(), NOW, listed)
    }

    fn of(&self, claims: &Value) -> Result<Holder, Wrong> {
        self.holder(&self.rsa.sign(claims))
    }

    /// Why a token is refused whose claims differ from good ones in this one.
    fn wrong(&self, name: &str, value: Value) -> Wrong {
        self.of(&good(name, value)).expect_err(name)
    }
}

/// The claims of a good token, with one changed; `null` removes it.
fn good(name: &str, value: Value) -> Value {
    let mut claims = json!({"iss": ISSUER, "aud": "meridian", "sub": "acme", "exp": NOW + 300});
    claims[name] = value;
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    claims
}

fn plain() -> Value {
    good("sub", json!("acme"))
}

// Tokens of both families of keys are accepted, also without a key id.
#[test]
fn good_tokens() {
    let world = world("");
    for signer in [&world.rsa, &world.p256] {
        let holder = world.holder(&signer.sign(&plain())).unwrap();
        assert_eq!(
            (holder.tenant, holder.at, holder.until),
            ("acme".parse().unwrap(), Some(0), NOW + 360)
        );
    }
    let token = world.p256.sign_as(&json!({"alg": "ES256"}), &plain());
    assert!(world.holder(&token).is_ok());
}

// A token without a signature is refused, and so is one that is signed with the public key as if it
// were a secret, and one whose algorithm is not that of the key or is not accepted.
#[test]
fn algorithms_are_fixed() {
    let world = world("");
    for header in [json!({"alg": "none"}), json!({"alg": "None", "kid": "r"})] {
        for signature in ["", "AAAA"] {
            let token = format!("{}.{signature}", unsigned(&header, &plain()));
            assert!(Issuers::is_token(token.as_bytes()));
            assert_eq!(world.holder(&token).unwrap_err(), Wrong::Header);
        }
    }
    let message = unsigned(&json!({"alg": "HS256", "kid": "r"}), &plain());
    let jwk = world.rsa.jwk();
    for secret in [jwk["n"].as_str().unwrap(), &jwk.to_string(), ""] {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let token =
            format!("{message}.{}", base64(hmac::sign(&secret, message.as_bytes()).as_ref()));
        assert_eq!(world.holder(&token).unwrap_err(), Wrong::Algorithm);
    }
    let mixed = world.rsa.sign_as(&json!({"alg": "ES256", "kid": "r"}), &plain());
    assert_eq!(world.holder(&mixed).unwrap_err(), Wrong::Key);
    let other = world.rsa.sign_as(&json!({"alg": "RS512", "kid": "r"}), &plain());
    assert_eq!(world.holder(&other).unwrap_err(), Wrong::Key);
    let critical =
        world.rsa.sign_as(&json!({"alg": "RS256", "kid": "r", "crit": ["b64"]}), &plain());
    assert_eq!(world.holder(&critical).unwrap_err(), Wrong::Header);
    let narrow = self::world("algorithms: [ES256]");
    assert_eq!(narrow.holder(&narrow.rsa.sign(&plain())).unwrap_err(), Wrong::Algorithm);
    assert!(narrow.holder(&narrow.p256.sign(&plain())).is_ok());
}

// A changed token, or one of another key with the same or another id, is refused.
#[test]
fn signatures_count() {
    let world = world("");
    let stranger = Signer::p256("p");
    assert_eq!(world.holder(&stranger.sign(&plain())).unwrap_err(), Wrong::Signature);
    let unknown = Signer::p256("x");
    assert_eq!(world.holder(&unknown.sign(&plain())).unwrap_err(), Wrong::Key);
    let token = world.rsa.sign(&plain());
    let mut parts: Vec<&str> = token.split('.').collect();
    let claims = base64(good("sub", json!("other")).to_string().as_bytes());
    parts[1] = &claims;
    assert_eq!(world.holder(&parts.join(".")).unwrap_err(), Wrong::Signature);
    // Keys in the token itself are not used.
    let own = json!({"alg": "ES256", "jwk": stranger.jwk(), "jku": "https://evil.example"});
    assert_eq!(world.holder(&stranger.sign_as(&own, &plain())).unwrap_err(), Wrong::Signature);
}

// Dates count with the leeway. A missing or unreadable `exp` is refused, as is an unreadable `nbf`.
#[test]
fn dates_count() {
    let world = world("leeway: 10s");
    let accepted = |name, date: u64| world.of(&good(name, json!(date))).is_ok();
    assert!(accepted("exp", NOW - 9) && accepted("nbf", NOW + 10) && accepted("iat", NOW + 500));
    assert!(world.of(&good("exp", json!(NOW as f64 + 0.5))).is_ok());
    assert_eq!(world.wrong("exp", json!(NOW - 10)), Wrong::Expired);
    assert_eq!(world.wrong("exp", json!(-1)), Wrong::Expired);
    assert_eq!(world.wrong("nbf", json!(NOW + 11)), Wrong::NotYet);
    assert_eq!(world.wrong("exp", Value::Null), Wrong::NoExpiry);
    for name in ["exp", "nbf"] {
        assert_eq!(world.wrong(name, json!((NOW + 300).to_string())), Wrong::Claims);
    }
}

// Issuer and audience have to match. Of a list of audiences, one is enough.
#[test]
fn issuers_and_audiences_count() {
    let world = world("");
    for aud in [json!("m2"), json!(["x", "meridian"])] {
        assert!(world.of(&good("aud", aud)).is_ok());
    }
    for aud in
        [json!("x"), json!(["x", "y"]), json!([]), json!(1), json!("meridian x"), Value::Null]
    {
        assert_eq!(world.wrong("aud", aud.clone()), Wrong::Audience, "{aud}");
    }
    for iss in ["https://c.example", "https://a.example/", "HTTPS://A.EXAMPLE"] {
        assert_eq!(world.wrong("iss", json!(iss)), Wrong::Issuer);
    }
    for iss in [json!([ISSUER]), Value::Null] {
        assert_eq!(world.wrong("iss", iss), Wrong::Claims);
    }
    // The other issuer is known, and its keys are not.
    assert!(matches!(world.wrong("iss", json!("https://b.example")), Wrong::NoKeys(_)));
}

// Only three parts of base64url are a token. A long one is refused before it is read, and so is one
// whose parts are not JSON.
#[test]
fn forms() {
    for key in ["mk-0123", "a.b", "a.b.c.d", "a..c", ".b.c", "a.b.c=", "sk.a/b.c", ""] {
        assert!(!Issuers::is_token(key.as_bytes()), "{key}");
    }
    let world = world("");
    for token in ["a.b.c", "e30.e30.e30", "eyJhbGciOiJSUzI1NiJ9.bm8.x"] {
        assert!(Issuers::is_token(token.as_bytes()));
        assert!(matches!(world.holder(token), Err(Wrong::Header | Wrong::Claims)), "{token}");
    }
    let long = world.rsa.sign(&good("groups", json!("x".repeat(MOST_TOKEN))));
    assert_eq!(world.holder(&long).unwrap_err(), Wrong::TooLong);
}

// The tenant is read from its claim, which may be nested or a list of one, and has to be a name.
#[test]
fn tenants_are_read() {
    let world = world("claims: {tenant: org.name}");
    let tenant = |claims: &Value| world.of(claims).map(|holder| holder.tenant);
    for org in [json!({"name": "acme"}), json!({"name": ["acme"]})] {
        assert_eq!(tenant(&good("org", org)), Ok("acme".parse().unwrap()));
    }
    assert_eq!(tenant(&good("org.name", json!("other"))), Ok("other".parse().unwrap()));
    let none = Wrong::Tenant("org.name".to_owned());
    for org in [json!({}), json!({"name": ["acme", "other"]}), json!({"name": ""}), json!("acme")] {
        assert_eq!(world.wrong("org", org), none);
    }
    for name in [json!("a b"), json!("a\r\nx: y"), json!(7), json!("x".repeat(129))] {
        assert_eq!(world.wrong("org.name", name), none);
    }
}

// A tenant that is not configured is refused, or has no index, the class `normal` at most, and so no
// labels and no limits. An issuer may be restricted to its own tenants.
#[test]
fn unknown_tenants() {
    let strange = good("sub", json!("auth0|5f7c8ec7"));
    assert_eq!(world("").of(&strange).unwrap_err(), Wrong::UnknownTenant);
    let open = world("unknown_tenants: allow, claims: {priority: class}");
    let mut urgent = strange.clone();
    urgent["class"] = json!("high");
    let holder = open.of(&urgent).unwrap();
    assert_eq!((holder.at, holder.priority), (None, Priority::Normal));
    assert_eq!(open.of(&plain()).unwrap().at, Some(0));
    let narrow = world("tenants: [other]");
    assert_eq!(narrow.of(&plain()).unwrap_err(), Wrong::UnknownTenant);
    assert_eq!(narrow.of(&good("sub", json!("other"))).unwrap().at, Some(1));
}

// A class in the token lowers the tenant's own and never raises it.
#[test]
fn classes_only_lower() {
    let world = world("claims: {priority: class}");
    let class = |tenant: &str, class: Value| {
        let mut claims = good("sub", json!(tenant));
        claims["class"] = class;
        world.of(&claims).map(|holder| holder.priority)
    };
    assert_eq!(world.of(&plain()).unwrap().priority, Priority::High);
    assert_eq!(class("acme", json!("low")), Ok(Priority::Low));
    assert_eq!(class("acme", json!(["normal"])), Ok(Priority::Normal));
    assert_eq!(class("other", json!("high")), Ok(Priority::Normal));
    for bad in [json!("urgent"), json!(1), json!(["low", "high"])] {
        assert_eq!(class("acme", bad), Err(Wrong::Priority("class".to_owned())));
    }
}

// A verified token is known from then on, until its key is withdrawn. Refused tokens are not kept.
#[test]
fn withdrawn_keys_end_tokens() {
    let world = world("");
    let (token, hash) = (world.p256.sign(&plain()), [7; 32]);
    let verify = |token: &str| {
        let listed = |_: &HeaderValue| Some(Listed { at: 0, priority: Priority::Normal });
        world.issuers.verify(token.as_bytes(), hash, NOW, listed).map_err(|refusal| refusal.code)
    };
    assert_eq!(verify("a.b.c").unwrap_err(), "invalid_token");
    assert!(world.issuers.known(&hash, NOW).is_none());
    assert!(verify(&token).is_ok());
    assert!(world.issuers.known(&hash, NOW).is_some());
    world.publish(&[&world.p256]);
    assert!(world.issuers.known(&hash, NOW).is_some());
    assert!(world.issuers.known(&hash, NOW + 360).is_none());
    assert!(verify(&token).is_ok());
    world.publish(&[&world.rsa]);
    assert!(world.issuers.known(&hash, NOW).is_none());
    assert_eq!(verify(&token).unwrap_err(), "invalid_token");
}

// A reload keeps the keys of issuers that stay, also if they are fetched from elsewhere from now on, and
// forgets those of others.
#[test]
fn keys_outlive_reloads() {
    let world = world("");
    let yaml = format!(
        "version: 1\ntenants: [{{name: acme}}]\noidc:\n  - {{issuer: '{ISSUER}', audience: [new]}}\n"
    );
    let config = Config::read(&yaml).unwrap();
    let again = Issuers::new(&config.oidc, &world.kept).unwrap();
    assert_eq!(world.kept.status().len(), 1);
    assert!(again.all[0].1.keys().is_some());
    let moved = yaml.replace("audience", "keys: 'https://c.example', audience");
    let config = Config::read(&moved).unwrap();
    let again = Issuers::new(&config.oidc, &world.kept).unwrap();
    assert!(again.all[0].1.keys().is_some());
    let other = yaml.replace(ISSUER, "https://other.example");
    let config = Config::read(&other).unwrap();
    let again = Issuers::new(&config.oidc, &world.kept).unwrap();
    assert!(again.all[0].1.keys().is_none());
}

// A CA file that cannot be used is reported with its field, also before a start.
#[test]
fn files_are_checked() {
    let yaml = format!(
        "version: 1\ntenants: [{{name: acme}}]\noidc:\n  - {{issuer: '{ISSUER}', audience: [m], ca: no/where.pem}}\n"
    );
    let config = Config::read(&yaml).unwrap();
    let found = crate::check(&config);
    assert_eq!(found.len(), 1, "{found:?}");
    let says = "oidc[0].ca: no/where.pem: there is no such file; use the certificate";
    assert!(found[0].starts_with(says), "{found:?}");
}

// Refusals name the cause, the status and the challenge, and repeat nothing of the token.
#[test]
fn refusals() {
    use meridian_protocol::openai::Endpoint;
    let of = |wrong: Wrong| {
        let response = Refusal::from(wrong).response::<bytes::Bytes>(Endpoint::ChatCompletions);
        let header =
            |name| response.headers().get(name).and_then(|v| v.to_str().ok().map(String::from));
        (response.status().as_u16(), header("www-authenticate"), header("retry-after"))
    };
    let challenge = Some("Bearer error=\"invalid_token\"".to_owned());
    assert_eq!(of(Wrong::Expired), (401, challenge.clone(), None));
    assert_eq!(of(Wrong::Tenant("sub".to_owned())), (401, challenge, None));
    assert_eq!(of(Wrong::UnknownTenant), (403, None, None));
    let wait = std::time::Duration::from_secs(4);
    assert_eq!(of(Wrong::NoKeys(wait)), (503, None, Some("4".to_owned())));
}
