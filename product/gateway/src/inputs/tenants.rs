//! Identifies the tenant of a request by its API key, or by a token of an identity provider.
//!
//! The key's SHA-256 is compared with all configured ones in constant time, so the duration of a
//! refusal reveals nothing about them. A key never leaves this module: not to a log, a metric, a
//! peer or a replica.

use std::sync::Arc;

use http::StatusCode;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use meridian_base::residency::Labels;
use meridian_config as config;
use meridian_routing::Priority;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;

use crate::http::headers::API_KEY;
use crate::inputs::oidc::{self, Holder, Issuers, Listed};
use crate::inputs::rate::{Rates, RatesByTenant};
use crate::refusal::Refusal;

/// One tenant.
#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    pub(crate) name: HeaderValue,
    pub(crate) labels: Labels,
    /// Its rate limits.
    pub(crate) rates: Option<Arc<Rates>>,
    pub(crate) priority: Priority,
}

/// All tenants.
#[derive(Debug, Default)]
pub(crate) struct Tenants {
    all: Vec<Tenant>,
    /// The hash of each key, with its tenant's index.
    keys: Vec<([u8; 32], usize)>,
    /// Issuers of tokens, if there are any.
    issuers: Option<Issuers>,
}

/// The tenant of a client's request.
#[derive(Clone, Debug)]
pub(crate) struct Identified {
    pub(crate) name: HeaderValue,
    /// Whether the configuration lists it.
    pub(crate) is_known: bool,
    pub(crate) rates: Option<Arc<Rates>>,
    pub(crate) priority: Priority,
}

/// The system provides no randomness.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the system has no source of random numbers; make a key on another machine")]
pub struct NoChance;

/// A new random key: 256 bits, in hex digits.
///
/// # Errors
/// If the system provides no randomness.
pub fn new_key() -> Result<String, NoChance> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| NoChance)?;
    Ok(bytes.iter().fold("mk-".to_owned(), |key, byte| format!("{key}{byte:02x}")))
}

/// The SHA-256 of a key.
pub(crate) fn hashed(key: &[u8]) -> [u8; 32] {
    digest(&SHA256, key).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

impl Tenants {
    pub(crate) fn new(tenants: &[config::Tenant], kept: &RatesByTenant) -> Tenants {
        let mut made = Tenants::default();
        for (tenant, rates) in tenants.iter().zip(kept.of(tenants)) {
            // The configuration was checked: names are valid header values, and keys are hashes.
            let Ok(name) = HeaderValue::from_str(&tenant.name) else { continue };
            let at = made.all.len();
            let (labels, priority) = (tenant.labels.clone(), tenant.priority.into());
            made.all.push(Tenant { name, labels, rates, priority });
            made.keys.extend(tenant.keys.iter().filter_map(|key| Some((key.0?, at))));
        }
        made
    }

    /// The same, with issuers of tokens.
    pub(crate) fn with_issuers(self, issuers: Option<Issuers>) -> Tenants {
        Tenants { issuers, ..self }
    }

    /// Whether requests need a key or a token.
    pub(crate) fn are_named(&self) -> bool {
        !self.all.is_empty() || self.issuers.is_some()
    }

    /// The tenant of a client's request.
    pub(crate) fn identify(&self, headers: &HeaderMap) -> Result<Identified, Refusal> {
        let key = key(headers).ok_or_else(|| missing(self.issuers.is_some()))?;
        let hash = hashed(key);
        let issuers = self.issuers.as_ref().filter(|_| Issuers::is_token(key));
        let Some(issuers) = issuers else {
            return self.by_key(&hash).map(Identified::from).ok_or_else(unknown);
        };
        let now = oidc::today();
        if let Some(holder) = issuers.known(&hash, now) {
            return Ok(self.held(holder));
        }
        // A key may look like a token.
        if let Some(tenant) = self.by_key(&hash) {
            return Ok(tenant.into());
        }
        let listed = |name: &HeaderValue| {
            let at = self.all.iter().position(|tenant| tenant.name == name)?;
            Some(Listed { at, priority: self.all[at].priority })
        };
        issuers.verify(key, hash, now, listed).map(|holder| self.held(holder))
    }

    /// The tenant of the key with this hash.
    fn by_key(&self, hash: &[u8; 32]) -> Option<&Tenant> {
        let mut whose = None;
        for (known, tenant) in &self.keys {
            if known.ct_eq(hash).into() {
                whose = Some(*tenant);
            }
        }
        whose.map(|at| &self.all[at])
    }

    /// The tenant of a verified token.
    fn held(&self, holder: Holder) -> Identified {
        let Holder { tenant: name, at, priority, .. } = holder;
        let rates = at.and_then(|at| self.all[at].rates.clone());
        Identified { name, is_known: at.is_some(), rates, priority }
    }

    /// The labels of a tenant by name; none if it is unknown here.
    pub(crate) fn labels(&self, name: Option<&HeaderValue>) -> Option<&Labels> {
        let known = self.all.iter().find(|tenant| Some(&tenant.name) == name)?;
        Some(&known.labels)
    }
}

impl From<&Tenant> for Identified {
    fn from(tenant: &Tenant) -> Identified {
        let (name, rates) = (tenant.name.clone(), tenant.rates.clone());
        Identified { name, is_known: true, rates, priority: tenant.priority }
    }
}

/// The request's key or token: one, or none. Anthropic's clients send their own header on every path,
/// also on those that they share with OpenAI's.
fn key(headers: &HeaderMap) -> Option<&[u8]> {
    let only = |name: &HeaderName| {
        let mut values = headers.get_all(name).iter();
        values.next().filter(|_| values.next().is_none()).map(HeaderValue::as_bytes)
    };
    if headers.contains_key(AUTHORIZATION) {
        let (scheme, key) = only(&AUTHORIZATION)?.split_at_checked(7)?;
        return scheme.eq_ignore_ascii_case(b"bearer ").then(|| key.trim_ascii());
    }
    only(&API_KEY)
}

fn missing(takes_tokens: bool) -> Refusal {
    let message = match takes_tokens {
        false => {
            "the request has no API key; send one as `Authorization: Bearer KEY`, or as `x-api-key` to /v1/messages"
        }
        true => {
            "the request has neither an API key nor a token; send one as `Authorization: Bearer KEY_OR_TOKEN`, or as `x-api-key` to /v1/messages"
        }
    };
    Refusal::new(StatusCode::UNAUTHORIZED, "missing_api_key", message)
}

fn unknown() -> Refusal {
    Refusal::new(
        StatusCode::UNAUTHORIZED,
        "invalid_api_key",
        "the API key is unknown; check it, or ask the operator to add its hash to `tenants`",
    )
}

/// Removes the headers that identified the client: a replica should see neither a key nor an
/// unverified name.
pub(crate) fn strip(headers: &mut HeaderMap, tenant_header: Option<&HeaderName>) {
    headers.remove(AUTHORIZATION);
    headers.remove(API_KEY);
    if let Some(name) = tenant_header {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenants() -> Tenants {
        let key = |key: &str| config::KeyHash::of(key.as_bytes());
        let tenant = |name: &str, keys: &[&str]| config::Tenant {
            name: name.to_owned(),
            keys: keys.iter().map(|k| key(k)).collect(),
            ..config::Tenant::default()
        };
        let both = [tenant("a", &["key-one", "key-two"]), tenant("b", &["key-three"])];
        Tenants::new(&both, &RatesByTenant::default())
    }

    fn whose(pairs: &[(&'static str, &'static str)]) -> Result<String, &'static str> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let tenants = tenants();
        let found = tenants.identify(&headers).map_err(|refusal| refusal.code)?;
        Ok(found.name.to_str().expect("is text").to_owned())
    }

    // SHA-256 of "abc" (FIPS 180-2, appendix B.1).
    #[test]
    fn hash_is_sha256() {
        let known = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(config::KeyHash::of(b"abc").to_string(), known);
    }

    // Each key identifies its tenant, in either header. Without a key, with two, or with an unknown
    // one, there is no tenant.
    #[test]
    fn keys_are_told_apart() {
        assert_eq!(whose(&[("authorization", "Bearer key-two")]), Ok("a".to_owned()));
        assert_eq!(whose(&[("authorization", "bearer key-three")]), Ok("b".to_owned()));
        assert_eq!(whose(&[("x-api-key", "key-three")]), Ok("b".to_owned()));
        assert_eq!(whose(&[]), Err("missing_api_key"));
        assert_eq!(whose(&[("authorization", "Basic key-two")]), Err("missing_api_key"));
        assert_eq!(whose(&[("authorization", "Bearer key")]), Err("invalid_api_key"));
        assert_eq!(whose(&[("authorization", "Bearer ")]), Err("invalid_api_key"));
        let twice = [("authorization", "Bearer key-two"), ("authorization", "Bearer key-two")];
        assert_eq!(whose(&twice), Err("missing_api_key"));
        let both = [("authorization", "Bearer no"), ("x-api-key", "key-three")];
        assert_eq!(whose(&both), Err("invalid_api_key"));
    }
}
