//! The verification of one token (RFC 7519, RFC 8725): form, algorithm, key, signature, audience
//! and dates, in this order. Nothing that an unverified token says is believed, except which
//! issuer and which key to verify it with.

use std::sync::Arc;

use http::HeaderValue;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Header, Validation, dangerous, decode, decode_header};
use meridian_config::{self as config, TokenAlgorithm, UnknownTenants};
use meridian_routing::Priority;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::keys::{Key, KeySet};
use super::refused::Wrong;

/// Longest token, bytes. Providers that list hundreds of groups in a token exceed it.
pub(super) const MOST_TOKEN: usize = 8 << 10;
/// Longest name of a tenant, bytes.
const MOST_NAME: usize = 128;

/// Whether a credential has the form of a signed token: three parts of base64url.
pub(super) fn is_token(credential: &[u8]) -> bool {
    let of_part = |b: &u8| b.is_ascii_alphanumeric() || b"-_".contains(b);
    let mut parts = credential.split(|b| *b == b'.');
    let [header, claims, signature] = [parts.next(), parts.next(), parts.next()];
    let filled = |part: Option<&[u8]>| part.is_some_and(|p| !p.is_empty() && p.iter().all(of_part));
    // A token without a signature is one, too, and is refused as such.
    let last = signature.is_some_and(|part| part.iter().all(of_part));
    filled(header) && filled(claims) && last && parts.next().is_none()
}

/// The claim that says which issuer's keys to use.
#[derive(Deserialize)]
struct Named {
    iss: String,
}

/// The issuer that an unverified token names, and its header.
pub(super) fn unverified(token: &str) -> Result<(String, Header), Wrong> {
    let header = decode_header(token).map_err(|_| Wrong::Header)?;
    // RFC 7515, section 4.1.11: extensions that the recipient must understand.
    if header.crit.is_some() {
        return Err(Wrong::Header);
    }
    let named: Named = dangerous::insecure_decode_claims(token).map_err(|_| Wrong::Claims)?;
    Ok((named.iss, header))
}

/// What an issuer vouches for.
#[derive(Debug)]
pub(super) struct Vouched {
    pub(super) tenant: HeaderValue,
    pub(super) priority: Option<Priority>,
    /// When the token expires, the leeway included.
    pub(super) until: u64,
    pub(super) key: Arc<Key>,
}

/// The rules for tokens of one issuer.
#[derive(Debug)]
pub(super) struct Rules {
    config: config::Issuer,
    algorithms: Vec<Algorithm>,
    validation: Validation,
}

impl Rules {
    pub(super) fn new(config: &config::Issuer) -> Rules {
        let mut validation = Validation::default();
        validation.set_required_spec_claims(&["iss", "aud"]);
        validation.set_issuer(&[&config.issuer]);
        validation.set_audience(&config.audience);
        // Dates are compared here, with the time that the caller gives.
        validation.validate_exp = false;
        let algorithms = config.algorithms.iter().copied().map(algorithm).collect();
        Rules { config: config.clone(), algorithms, validation }
    }

    pub(super) fn issuer(&self) -> &str {
        &self.config.issuer
    }

    /// Whether its tokens may name this tenant; `is_known` says whether it is configured.
    pub(super) fn permit(&self, tenant: &HeaderValue, is_known: bool) -> bool {
        let listed = &self.config.tenants;
        let may = listed.is_empty() || listed.iter().any(|name| tenant == name.as_str());
        may && (is_known || self.config.unknown_tenants == UnknownTenants::Allow)
    }

    /// Verifies a token at the date `now`, in seconds since 1970.
    pub(super) fn verify(
        &self,
        token: &str,
        header: &Header,
        keys: &KeySet,
        now: u64,
    ) -> Result<Vouched, Wrong> {
        if !self.algorithms.contains(&header.alg) {
            return Err(Wrong::Algorithm);
        }
        let mut validation = self.validation.clone();
        validation.algorithms = vec![header.alg];
        let mut wrong = Wrong::Key;
        for key in keys.fitting(header.kid.as_deref(), header.alg) {
            match decode::<Map<String, Value>>(token, key.verifying(), &validation) {
                Ok(decoded) => return self.vouched(&decoded.claims, key, now),
                Err(error) => match error.kind() {
                    ErrorKind::InvalidSignature => wrong = Wrong::Signature,
                    ErrorKind::InvalidAudience => wrong = Wrong::Audience,
                    ErrorKind::MissingRequiredClaim(claim) if claim == "aud" => {
                        wrong = Wrong::Audience;
                    }
                    ErrorKind::InvalidIssuer => wrong = Wrong::Issuer,
                    _ => wrong = Wrong::Claims,
                },
            }
        }
        Err(wrong)
    }

    /// Reads the claims of a token whose signature, issuer and audience are right.
    fn vouched(
        &self,
        claims: &Map<String, Value>,
        key: &Arc<Key>,
        now: u64,
    ) -> Result<Vouched, Wrong> {
        let leeway = self.config.leeway.0.as_secs();
        let until = date(claims, "exp")?.ok_or(Wrong::NoExpiry)?.saturating_add(leeway);
        if now >= until {
            return Err(Wrong::Expired);
        }
        let from = date(claims, "nbf")?.unwrap_or(0);
        if now.saturating_add(leeway) < from {
            return Err(Wrong::NotYet);
        }
        let names = &self.config.claims;
        let tenant = claim(claims, &names.tenant).and_then(single).and_then(name);
        let tenant = tenant.ok_or_else(|| Wrong::Tenant(names.tenant.clone()))?;
        let class = names.priority.as_ref().and_then(|name| Some((name, claim(claims, name)?)));
        let priority = class.map(|(name, value)| {
            let class = single(value).and_then(Priority::of);
            class.ok_or_else(|| Wrong::Priority(name.clone()))
        });
        Ok(Vouched { tenant, priority: priority.transpose()?, until, key: key.clone() })
    }
}

fn algorithm(configured: TokenAlgorithm) -> Algorithm {
    match configured {
        TokenAlgorithm::RS256 => Algorithm::RS256,
        TokenAlgorithm::RS384 => Algorithm::RS384,
        TokenAlgorithm::RS512 => Algorithm::RS512,
        TokenAlgorithm::PS256 => Algorithm::PS256,
        TokenAlgorithm::PS384 => Algorithm::PS384,
        TokenAlgorithm::PS512 => Algorithm::PS512,
        TokenAlgorithm::ES256 => Algorithm::ES256,
        TokenAlgorithm::ES384 => Algorithm::ES384,
        TokenAlgorithm::EdDSA => Algorithm::EdDSA,
    }
}

/// A date in seconds since 1970 (`NumericDate`), which may have a fraction. One of another type
/// makes the token invalid, as if it were absent it would not limit anything.
fn date(claims: &Map<String, Value>, name: &str) -> Result<Option<u64>, Wrong> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = value.as_f64().ok_or(Wrong::Claims)?;
    // A negative date is long ago; `as` keeps within the bounds of u64.
    Ok(Some(seconds as u64))
}

/// A claim by its name, or else by a path with dots.
fn claim<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let mut steps = name.split('.');
    claims.get(name).or_else(|| {
        let first = claims.get(steps.next()?)?;
        steps.try_fold(first, |value, step| value.get(step))
    })
}

/// A text, or a list of a single text.
fn single(value: &Value) -> Option<&str> {
    match value {
        Value::Array(values) => match values.as_slice() {
            [one] => one.as_str(),
            _ => None,
        },
        value => value.as_str(),
    }
}

/// A tenant's name as it is sent to peers.
fn name(text: &str) -> Option<HeaderValue> {
    let fits = (1..=MOST_NAME).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    fits.then(|| HeaderValue::from_str(text).ok()).flatten()
}
