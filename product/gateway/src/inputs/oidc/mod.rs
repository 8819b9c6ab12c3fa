//! Tokens (JWT) of identity providers, as an alternative to API keys.
//!
//! A token is verified once, with the keys of its issuer; later requests with it find it among the
//! verified tokens (`seen.rs`). A token never leaves this module: not to a log, a metric, a peer or
//! a replica.

mod fetch;
mod issuer;
mod kept;
mod keys;
mod refused;
mod seen;
mod signature;
mod token;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::SystemTime;

use http::HeaderValue;
use meridian_config as config;
use meridian_routing::Priority;

use self::issuer::Issuer;
pub(crate) use self::kept::{KeptIssuers, keep};
use self::refused::Wrong;
pub(crate) use self::seen::Holder;
use self::seen::Seen;
use self::token::{MOST_TOKEN, Rules, is_token, unverified};
use crate::refusal::Refusal;

/// The issuers of the configuration in force.
#[derive(Debug)]
pub(crate) struct Issuers {
    all: Vec<(Rules, Arc<Issuer>)>,
    seen: Seen,
}

/// A configured tenant, as the verification needs it.
pub(crate) struct Listed {
    /// Its index in the configuration.
    pub(crate) at: usize,
    pub(crate) priority: Priority,
}

impl Issuers {
    /// None without issuers. `kept` has their keys.
    pub(crate) fn new(issuers: &[config::Issuer], kept: &KeptIssuers) -> Option<Issuers> {
        signature::install();
        let rules = issuers.iter().map(Rules::new);
        let all: Vec<_> = rules.zip(kept.of(issuers)).collect();
        (!all.is_empty()).then(|| Issuers { all, seen: Seen::default() })
    }

    /// Whether a credential is a token, and not a key.
    pub(crate) fn is_token(credential: &[u8]) -> bool {
        is_token(credential)
    }

    /// The holder of a token that was verified before. `hash` is its SHA-256.
    pub(crate) fn known(&self, hash: &[u8; 32], now: u64) -> Option<Holder> {
        self.seen.get(hash, now)
    }

    /// Verifies a token at the date `now`, in seconds since 1970. `listed` finds a configured
    /// tenant.
    pub(crate) fn verify(
        &self,
        token: &[u8],
        hash: [u8; 32],
        now: u64,
        listed: impl FnOnce(&HeaderValue) -> Option<Listed>,
    ) -> Result<Holder, Refusal> {
        let holder = self.holder(token, now, listed)?;
        self.seen.put(hash, holder.clone());
        Ok(holder)
    }

    fn holder(
        &self,
        token: &[u8],
        now: u64,
        listed: impl FnOnce(&HeaderValue) -> Option<Listed>,
    ) -> Result<Holder, Wrong> {
        if token.len() > MOST_TOKEN {
            return Err(Wrong::TooLong);
        }
        let token = std::str::from_utf8(token).map_err(|_| Wrong::Header)?;
        let (named, header) = unverified(token)?;
        let of_issuer = |(rules, _): &&(Rules, _)| rules.issuer() == named;
        let (rules, issuer) = self.all.iter().find(of_issuer).ok_or(Wrong::Issuer)?;
        let keys = issuer.keys().ok_or_else(|| Wrong::NoKeys(issuer.wait()))?;
        let vouched = rules.verify(token, &header, &keys, now).inspect_err(|wrong| {
            // The issuer may have exchanged its keys, whether or not they have ids.
            if matches!(wrong, Wrong::Key | Wrong::Signature) {
                issuer.misses_a_key();
            }
        })?;
        let listed = listed(&vouched.tenant);
        if !rules.permit(&vouched.tenant, listed.is_some()) {
            return Err(Wrong::UnknownTenant);
        }
        let own = listed.as_ref().map_or_else(Priority::default, |tenant| tenant.priority);
        Ok(Holder {
            tenant: vouched.tenant,
            at: listed.map(|tenant| tenant.at),
            priority: vouched.priority.map_or(own, |claimed| claimed.min(own)),
            until: vouched.until,
            key: vouched.key,
        })
    }
}

/// The date in seconds since 1970.
pub(crate) fn today() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "tokens hold from one date to another")]
    let date = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    date.unwrap_or_default().as_secs()
}

/// The CA files of issuers that cannot be used.
pub(crate) fn problems(config: &config::Gateway) -> Vec<String> {
    let issuers = config.oidc.iter().enumerate();
    let of = |(at, issuer): (usize, &config::Issuer)| {
        let ca = issuer.ca.as_deref().filter(|ca| !ca.as_os_str().is_empty())?;
        let problem = meridian_tls::open_client("oidc", ca, &[]).err()?.problem;
        Some(format!(
            "oidc[{at}].ca: {}: {problem}; use the certificate of the CA that issued the issuer's own",
            ca.display()
        ))
    };
    issuers.filter_map(of).collect()
}
