//! The public keys of an issuer, from its JWKS (RFC 7517).
//!
//! Keys that sign nothing, or by an algorithm that the gateway does not know, are left out, so one
//! unusual key does not make the others useless. Secrets (`oct`) are left out, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use serde::Deserialize;

/// Most keys of an issuer: a token without a key id is verified with all that fit.
const MOST_KEYS: usize = 64;

/// One public key.
#[derive(Debug)]
pub(crate) struct Key {
    /// As the issuer published it.
    jwk: Jwk,
    /// The only algorithm that it may be used with, if the issuer names one.
    algorithm: Option<Algorithm>,
    verifying: DecodingKey,
    /// Whether the issuer has withdrawn it. Tokens that it signed are no longer accepted.
    gone: AtomicBool,
}

impl Key {
    /// Whether the issuer has withdrawn it.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    pub(super) fn verifying(&self) -> &DecodingKey {
        &self.verifying
    }

    fn fits(&self, id: Option<&str>, algorithm: Algorithm) -> bool {
        (id.is_none() || self.jwk.common.key_id.as_deref() == id)
            && self.verifying.family() == algorithm.family()
            && self.algorithm.is_none_or(|own| own == algorithm)
    }

    /// Reads a key; none if it can't verify signatures here.
    fn read(jwk: Jwk) -> Option<Key> {
        let common = &jwk.common;
        let signs = common.public_key_use.as_ref().is_none_or(|u| *u == PublicKeyUse::Signature);
        let verifies =
            common.key_operations.as_ref().is_none_or(|ops| ops.contains(&KeyOperations::Verify));
        if !signs || !verifies {
            return None;
        }
        let verifying = DecodingKey::from_jwk(&jwk).ok()?;
        let named = common.key_algorithm.map(Algorithm::try_from).transpose().ok()?;
        let algorithm = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => named,
            AlgorithmParameters::EllipticCurve(key) => Some(match key.curve {
                EllipticCurve::P256 => Algorithm::ES256,
                EllipticCurve::P384 => Algorithm::ES384,
                _ => return None,
            }),
            AlgorithmParameters::OctetKeyPair(key) => {
                (key.curve == EllipticCurve::Ed25519).then_some(Algorithm::EdDSA)
            }
            _ => return None,
        };
        if verifying.family() != AlgorithmFamily::Rsa && algorithm.is_none() {
            return None;
        }
        let fits = named.is_none_or(|named| {
            named.family() == verifying.family() && algorithm.is_none_or(|own| own == named)
        });
        fits.then(|| Key { algorithm, verifying, gone: AtomicBool::new(false), jwk })
    }
}

/// The keys of an issuer at one time.
#[derive(Debug, Default)]
pub(crate) struct KeySet(Vec<Arc<Key>>);

#[derive(Deserialize)]
struct Written {
    keys: Vec<serde_json::Value>,
}

impl KeySet {
    /// Reads a JWKS. Keys that the set `before` has, too, stay the same objects.
    ///
    /// # Errors
    /// If it has no usable key.
    pub(super) fn read(json: &[u8], before: Option<&KeySet>) -> Result<KeySet, String> {
        let written: Written = serde_json::from_slice(json)
            .map_err(|_| "the keys cannot be read; the answer is not a JWKS".to_owned())?;
        let usable = |value| serde_json::from_value(value).ok().and_then(Key::read);
        let keys: Vec<Key> = written.keys.into_iter().filter_map(usable).collect();
        if keys.is_empty() {
            return Err("the JWKS has no key that can verify signatures here".to_owned());
        }
        if keys.len() > MOST_KEYS {
            return Err(format!("the JWKS has {} keys; at most {MOST_KEYS} are read", keys.len()));
        }
        let known = |key: &Key| before?.0.iter().find(|known| known.jwk == key.jwk).cloned();
        Ok(KeySet(keys.into_iter().map(|key| known(&key).unwrap_or_else(|| key.into())).collect()))
    }

    /// Marks the keys that only `before` has as withdrawn. Returns whether anything changed.
    pub(super) fn replaces(&self, before: &KeySet) -> bool {
        let is_here = |key: &Arc<Key>| self.0.iter().any(|own| Arc::ptr_eq(own, key));
        let (stay, go): (Vec<_>, Vec<_>) = before.0.iter().partition(|key| is_here(key));
        for key in &go {
            key.gone.store(true, Ordering::Relaxed);
        }
        !go.is_empty() || stay.len() != self.0.len()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The keys that may have signed a token with this header.
    pub(super) fn fitting(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> impl Iterator<Item = &Arc<Key>> {
        self.0.iter().filter(move |key| key.fits(id, algorithm))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: &str = "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU";
    const Y: &str = "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0";

    fn ec(id: &str, more: &str) -> String {
        format!(r#"{{"kty":"EC","crv":"P-256","x":"{X}","y":"{Y}","kid":"{id}"{more}}}"#)
    }

    fn set(keys: &[String], before: Option<&KeySet>) -> Result<KeySet, String> {
        KeySet::read(format!(r#"{{"keys":[{}]}}"#, keys.join(",")).as_bytes(), before)
    }

    // Secrets, encryption keys, unknown curves and algorithms are left out; the rest is used, each
    // key with the algorithm of its curve.
    #[test]
    fn unusable_keys_are_left_out() {
        let others = [
            r#"{"kty":"oct","k":"c2VjcmV0","kid":"a"}"#.to_owned(),
            format!(r#"{{"kty":"EC","crv":"secp256k1","x":"{X}","y":"{Y}","kid":"b"}}"#),
            ec("c", r#","use":"enc""#),
            ec("d", r#","key_ops":["encrypt"]"#),
            ec("e", r#","alg":"ES384""#),
            ec("f", r#","alg":"RSA-OAEP""#),
            r#"{"kty":"RSA","n":"AQAB","e":"AQAB","alg":"HS256","kid":"g"}"#.to_owned(),
            format!(r#"{{"kty":"OKP","crv":"X25519","x":"{X}","kid":"h"}}"#),
            r#"{"kty":"new","kid":"i"}"#.to_owned(),
            r#"{"kid":"j"}"#.to_owned(),
        ];
        let error = set(&others, None).expect_err("no key is usable");
        assert!(error.starts_with("the JWKS has no key"), "{error}");
        let mut keys = others.to_vec();
        keys.extend([ec("k", r#","use":"sig","alg":"ES256""#), ec("l", "")]);
        let found = set(&keys, None).unwrap();
        assert_eq!(found.len(), 2);
        let count = |id, algorithm| found.fitting(id, algorithm).count();
        assert_eq!(count(None, Algorithm::ES256), 2);
        assert_eq!(count(Some("l"), Algorithm::ES256), 1);
        assert_eq!(count(Some("l"), Algorithm::ES384), 0);
        assert_eq!(count(None, Algorithm::HS256), 0);
        assert!(KeySet::read(b"<html>", None).is_err());
        let many: Vec<String> = (0..=MOST_KEYS).map(|n| ec(&n.to_string(), "")).collect();
        assert!(set(&many, None).is_err());
    }

    // A key that is published again stays the same; a withdrawn one is marked.
    #[test]
    fn withdrawn_keys_are_marked() {
        let first = set(&[ec("a", ""), ec("b", "")], None).unwrap();
        let same = set(&[ec("b", ""), ec("a", "")], Some(&first)).unwrap();
        assert!(!same.replaces(&first));
        let next = set(&[ec("b", ""), ec("c", "")], Some(&same)).unwrap();
        assert!(next.replaces(&same));
        let gone = |set: &KeySet| set.0.iter().map(|key| key.is_gone()).collect::<Vec<_>>();
        assert_eq!((gone(&first), gone(&next)), (vec![true, false], vec![false, false]));
    }
}
