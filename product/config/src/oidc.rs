//! Identity providers whose tokens (JWT) clients may send instead of keys.
//!
//! A token is believed only if one of these issuers signed it, for this gateway as its audience. A
//! shared secret cannot sign one: every program that verifies such a signature can forge it, too.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tls::named;
use super::twice::{exact, twice};
use super::{Span, Tenant};

/// Most issuers.
const MOST_ISSUERS: usize = 16;
/// Most audiences of an issuer.
const MOST_AUDIENCES: usize = 16;
/// Longest audience and longest name of a claim, bytes.
const MOST_TEXT: usize = 256;
/// The largest tolerance. Clocks that differ by more have to be set.
const MOST_LEEWAY: Span = Span::secs(600);

/// One issuer of tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Issuer {
    /// Its URL, equal to the claim `iss` of its tokens.
    pub issuer: String,
    /// The names of this gateway in the claim `aud`; a token needs one of them.
    pub audience: Vec<String>,
    /// URL of its keys (JWKS); by default the one that
    /// `ISSUER/.well-known/openid-configuration` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<String>,
    /// Certificates of the CA that issued the certificate of its site, as PEM; the public CAs if
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Accepted algorithms of signatures.
    #[serde(default = "all_algorithms")]
    pub algorithms: Vec<TokenAlgorithm>,
    /// The claims that are read.
    #[serde(default)]
    pub claims: Claims,
    /// The tenants that its tokens may name; any if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<String>,
    /// Whether a tenant that `tenants` of the file does not list may send requests.
    #[serde(default)]
    pub unknown_tenants: UnknownTenants,
    /// Tolerated difference of the clocks, for `exp` and `nbf`.
    #[serde(default = "one_minute")]
    pub leeway: Span,
}

/// Names of claims. A name with dots that no claim has is a path into nested objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Claims {
    /// Names the tenant.
    pub tenant: String,
    /// Names the priority class; none is read if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
}

/// What becomes of a token for a tenant that is not configured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UnknownTenants {
    /// It is refused.
    #[default]
    Refuse,
    /// Its tenant has no labels, no limits and the priority `normal`.
    Allow,
}

/// An algorithm of signatures with a public and a private key (RFC 7518, section 3.1; RFC 8037).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub enum TokenAlgorithm {
    /// RSA PKCS #1 with SHA-256.
    RS256,
    /// RSA PKCS #1 with SHA-384.
    RS384,
    /// RSA PKCS #1 with SHA-512.
    RS512,
    /// RSA PSS with SHA-256.
    PS256,
    /// RSA PSS with SHA-384.
    PS384,
    /// RSA PSS with SHA-512.
    PS512,
    /// ECDSA with P-256.
    ES256,
    /// ECDSA with P-384.
    ES384,
    /// Ed25519.
    EdDSA,
}

impl TokenAlgorithm {
    /// All of them.
    pub const ALL: [TokenAlgorithm; 9] = [
        TokenAlgorithm::RS256,
        TokenAlgorithm::RS384,
        TokenAlgorithm::RS512,
        TokenAlgorithm::PS256,
        TokenAlgorithm::PS384,
        TokenAlgorithm::PS512,
        TokenAlgorithm::ES256,
        TokenAlgorithm::ES384,
        TokenAlgorithm::EdDSA,
    ];
}

impl TryFrom<String> for TokenAlgorithm {
    type Error = String;

    fn try_from(name: String) -> Result<TokenAlgorithm, String> {
        let found = TokenAlgorithm::ALL.into_iter().find(|known| known.to_string() == name);
        found.ok_or_else(|| {
            let why = match name.as_str() {
                "none" => "means no signature",
                "HS256" | "HS384" | "HS512" => {
                    "signs with a secret, which every gateway that verifies tokens could use to forge them"
                }
                _ => "is unknown",
            };
            let all = TokenAlgorithm::ALL.map(|known| known.to_string()).join(", ");
            format!("`{name}` {why}; use one of {all}")
        })
    }
}

/// The name, as in a token.
impl fmt::Display for TokenAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

fn all_algorithms() -> Vec<TokenAlgorithm> {
    TokenAlgorithm::ALL.to_vec()
}

fn one_minute() -> Span {
    const LEEWAY: Span = Span::secs(60);
    assert!(LEEWAY <= MOST_LEEWAY, "the default is within its limit");
    LEEWAY
}

impl Default for Claims {
    fn default() -> Claims {
        Claims { tenant: "sub".to_owned(), priority: None }
    }
}

impl Issuer {
    /// Where its keys are found.
    #[must_use]
    pub fn discovery(&self) -> String {
        // OpenID Connect Discovery 1.0, section 4: a slash at the end is removed first.
        let issuer = self.issuer.trim_end_matches('/');
        format!("{issuer}/.well-known/openid-configuration")
    }

    fn check(&self, at: &str, tenants: &[Tenant], check: &mut impl FnMut(bool, String)) {
        let issuer = issuer_url(&self.issuer);
        let is_url = issuer.is_ok();
        check(is_url, format!("{at}.issuer: {}", issuer.err().unwrap_or_default()));
        let has_more = is_url && self.issuer.contains('?');
        check(
            !has_more,
            format!("{at}.issuer: `{}` has a query; write the `iss` of its tokens", self.issuer),
        );
        if let Some(Err(problem)) = self.keys.as_deref().map(issuer_url) {
            check(false, format!("{at}.keys: {problem}"));
        }
        named(at, self.ca.as_ref().map(|ca| ("ca", ca)).as_slice(), check);
        self.check_audience(at, check);
        self.check_claims(at, check);
        self.check_tenants(at, tenants, check);
        check(
            !self.algorithms.is_empty(),
            format!(
                "{at}.algorithms: is empty, so every token would be refused; list some, as in [RS256, ES256], or remove the line"
            ),
        );
        check(
            self.leeway <= MOST_LEEWAY,
            format!(
                "{at}.leeway: {} s is too long; use at most 10m, and set the clocks",
                self.leeway.0.as_secs()
            ),
        );
    }

    fn check_audience(&self, at: &str, check: &mut impl FnMut(bool, String)) {
        check(
            !self.audience.is_empty(),
            format!(
                "{at}.audience: is empty, and tokens for other programs would be accepted; list the `aud` of this gateway's tokens"
            ),
        );
        check(
            self.audience.len() <= MOST_AUDIENCES,
            format!(
                "{at}.audience: {} are listed; use at most {MOST_AUDIENCES}",
                self.audience.len()
            ),
        );
        twice(&format!("{at}.audience"), &self.audience, check);
        for name in &self.audience {
            exact(&format!("{at}.audience"), name, check);
        }
        check(
            self.audience.iter().all(|name| (1..=MOST_TEXT).contains(&name.len())),
            format!("{at}.audience: one is empty or too long; use 1 to {MOST_TEXT} bytes"),
        );
    }

    fn check_claims(&self, at: &str, check: &mut impl FnMut(bool, String)) {
        let Claims { tenant, priority } = &self.claims;
        for (field, name) in [("tenant", Some(tenant)), ("priority", priority.as_ref())] {
            check(
                name.is_none_or(|name| (1..=MOST_TEXT).contains(&name.len())),
                format!(
                    "{at}.claims.{field}: is empty or too long; write the name of a claim, 1 to {MOST_TEXT} bytes"
                ),
            );
        }
    }

    fn check_tenants(&self, at: &str, tenants: &[Tenant], check: &mut impl FnMut(bool, String)) {
        let refuses = self.unknown_tenants == UnknownTenants::Refuse;
        check(
            !(refuses && tenants.is_empty()),
            format!(
                "{at}.unknown_tenants: no tenants are configured, so every token would be refused; list them in `tenants`, or write `unknown_tenants: allow`"
            ),
        );
        check(
            refuses || self.tenants.is_empty(),
            format!(
                "{at}.unknown_tenants: `allow` contradicts {at}.tenants, which lists the tenants of this issuer; remove one of the two"
            ),
        );
        twice(&format!("{at}.tenants"), &self.tenants, check);
        for name in &self.tenants {
            check(
                tenants.iter().any(|known| known.name == *name),
                format!("{at}.tenants: `{name}` is not one of `tenants`; add it there"),
            );
        }
    }
}

/// Checks the issuers of a configuration.
pub(super) fn check(issuers: &[Issuer], tenants: &[Tenant], check: &mut impl FnMut(bool, String)) {
    check(
        issuers.len() <= MOST_ISSUERS,
        format!("oidc: {} issuers are listed; use at most {MOST_ISSUERS}", issuers.len()),
    );
    for (i, issuer) in issuers.iter().enumerate() {
        let at = format!("oidc[{i}]");
        issuer.check(&at, tenants, check);
        if let Some(j) = issuers[..i].iter().position(|known| known.issuer == issuer.issuer) {
            let shown = if issuer.issuer.contains('@') { "the URL" } else { &issuer.issuer };
            check(false, format!("{at}.issuer: `{shown}` is also oidc[{j}]; merge the two"));
        }
    }
}

/// Checks the URL of an issuer or of its keys. Plain http is for this machine only: an attacker who
/// changes the keys in transit can sign tokens.
///
/// # Errors
/// The problem and its remedy.
pub fn issuer_url(url: &str) -> Result<http::Uri, String> {
    let example = "write it as in https://login.example.org";
    // A password is not repeated.
    if url.contains('@') {
        return Err(format!("has a user name or a password; {example}"));
    }
    let shown: String = url.chars().take(MOST_TEXT).collect();
    let uri: http::Uri = match url.parse() {
        Ok(uri) if !url.contains('#') => uri,
        _ => return Err(format!("`{shown}` is not a URL; {example}")),
    };
    match (uri.scheme_str(), uri.host()) {
        (Some("https"), Some(_)) => Ok(uri),
        (Some("http"), Some(host)) if is_this_machine(host) => Ok(uri),
        (Some("http"), Some(_)) => Err(format!(
            "`{shown}` is not https, so an attacker could exchange the keys in transit; use https, or http on 127.0.0.1 only"
        )),
        _ => Err(format!("`{shown}` is not an https URL; {example}")),
    }
}

fn is_this_machine(host: &str) -> bool {
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConfigError, Gateway, TellClients};

    fn read(issuers: &str) -> Result<Gateway, ConfigError> {
        Gateway::read(&format!("version: 1\ntenants: [{{name: acme}}]\noidc: [{issuers}]\n"))
    }

    // The section with its defaults and with every field; the printed form reads back as the same.
    // Issuers identify clients, so answers say nothing about the fleet by default.
    #[test]
    fn section() {
        let config = read("{issuer: 'https://a.example/', audience: [m]}").unwrap();
        let one = &config.oidc[0];
        assert_eq!(one.discovery(), "https://a.example/.well-known/openid-configuration");
        assert_eq!((one.claims.tenant.as_str(), one.leeway), ("sub", Span::secs(60)));
        assert_eq!(one.algorithms, TokenAlgorithm::ALL);
        assert_eq!(Gateway::read(&config.print().unwrap()).unwrap(), config);
        let all = "{issuer: 'http://127.0.0.1:8180/realms/a', audience: [m, n], keys: 'http://[::1]:1/k', ca: ca.pem, algorithms: [RS256, EdDSA], claims: {tenant: t, priority: p}, tenants: [acme], unknown_tenants: refuse, leeway: 5s}";
        let config = read(all).unwrap();
        assert_eq!(Gateway::read(&config.print().unwrap()).unwrap(), config);
        assert_eq!(config.tells_clients(), TellClients::Nothing);
        let alone = "version: 1\noidc: [{issuer: 'https://a.example', audience: [m], unknown_tenants: allow}]\n";
        let alone = Gateway::read(alone).unwrap();
        assert!(alone.identifies_clients());
        assert_eq!(alone.tells_clients(), TellClients::Nothing);
    }

    // Each mistake is reported with its field and the remedy. A password is not shown.
    #[test]
    fn mistakes() {
        let with =
            |fields: &str| format!("{{issuer: 'https://a.example', audience: [m], {fields}}}");
        let at = |url: &str| format!("{{issuer: '{url}', audience: [m]}}");
        let twice = format!("{0}, {0}", at("https://a.example"));
        for (issuers, says) in [
            (
                at("http://a.example"),
                "oidc[0].issuer: `http://a.example` is not https, so an attacker",
            ),
            (at("a.example"), "oidc[0].issuer: `a.example` is not an https URL; write it as in"),
            (at("https://a.example?x=1"), "oidc[0].issuer: `https://a.example?x=1` has a query"),
            (at("https://a b"), "oidc[0].issuer: `https://a b` is not a URL"),
            (at("https://me:swordfish@a"), "oidc[0].issuer: has a user name or a password"),
            (twice, "oidc[1].issuer: `https://a.example` is also oidc[0]; merge the two"),
            ("{issuer: 'https://a', audience: []}".to_owned(), "oidc[0].audience: is empty, and"),
            ("{issuer: 'https://a', audience: ['']}".to_owned(), "oidc[0].audience: one is empty"),
            ("{issuer: 'https://a'}".to_owned(), "audience"),
            (with("keys: 'http://10.0.0.1/k'"), "oidc[0].keys: `http://10.0.0.1/k` is not https"),
            (with("ca: ''"), "oidc[0].ca: is empty"),
            (with("algorithms: []"), "oidc[0].algorithms: is empty, so every token"),
            (
                with("algorithms: [HS256]"),
                "oidc[0].algorithms[0]: `HS256` signs with a secret, which",
            ),
            (with("algorithms: [rs256]"), "oidc[0].algorithms[0]: `rs256` is unknown; use one of"),
            (with("claims: {tenant: ''}"), "oidc[0].claims.tenant: is empty or too long"),
            (with("claims: {team: t}"), "team"),
            (with("leeway: 11m"), "oidc[0].leeway: 660 s is too long; use at most 10m"),
            (with("tenants: [other]"), "oidc[0].tenants: `other` is not one of `tenants`"),
            (
                with("tenants: [acme], unknown_tenants: allow"),
                "oidc[0].unknown_tenants: `allow` contradicts oidc[0].tenants",
            ),
        ] {
            let error = read(&issuers).expect_err(&issuers).to_string();
            assert!(error.contains(says), "{says} is missing in {error}");
            assert!(!error.contains("swordfish"), "{error}");
        }
        let yaml = "version: 1\noidc: [{issuer: 'https://a.example', audience: [m]}]\n";
        let error = Gateway::read(yaml).expect_err("no tenants").to_string();
        assert!(error.starts_with("oidc[0].unknown_tenants: no tenants are configured"), "{error}");
    }
}
