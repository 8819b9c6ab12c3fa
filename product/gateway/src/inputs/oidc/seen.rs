//! Tokens that were verified before, so that a client's further requests cost no signature.
//!
//! Two generations bound the memory: new and used tokens are in the young one, and when it is full
//! it becomes the old one, whose tokens are forgotten. Only verified tokens are kept, by their
//! SHA-256, so a client without one can fill nothing.

use std::collections::HashMap;
use std::sync::Arc;

use http::HeaderValue;
use meridian_routing::Priority;

use super::keys::Key;
use crate::lock::Mutex;

/// Most tokens in a generation; an entry takes about 200 bytes.
const MOST_YOUNG: usize = 8192;

/// The holder of a verified token.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) tenant: HeaderValue,
    /// The index of the tenant in the configuration; none if it is not configured.
    pub(crate) at: Option<usize>,
    pub(crate) priority: Priority,
    /// When the token expires, the leeway included: seconds since 1970.
    pub(crate) until: u64,
    /// The key that signed it.
    pub(crate) key: Arc<Key>,
}

impl Holder {
    fn is_good(&self, now: u64) -> bool {
        now < self.until && !self.key.is_gone()
    }
}

/// Verified tokens by their SHA-256.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<Generations>);

#[derive(Debug, Default)]
struct Generations {
    young: HashMap<[u8; 32], Holder>,
    old: HashMap<[u8; 32], Holder>,
}

impl Seen {
    /// The holder of a token that was verified before, unless it has expired or its key is gone.
    pub(crate) fn get(&self, token: &[u8; 32], now: u64) -> Option<Holder> {
        let mut seen = self.0.lock();
        if let Some(holder) = seen.young.get(token) {
            if holder.is_good(now) {
                return Some(holder.clone());
            }
            seen.young.remove(token);
            return None;
        }
        let holder = seen.old.remove(token).filter(|holder| holder.is_good(now))?;
        seen.put(*token, holder.clone());
        Some(holder)
    }

    pub(crate) fn put(&self, token: [u8; 32], holder: Holder) {
        self.0.lock().put(token, holder);
    }
}

impl Generations {
    fn put(&mut self, token: [u8; 32], holder: Holder) {
        if self.young.len() >= MOST_YOUNG {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(token, holder);
        assert!(self.young.len() <= MOST_YOUNG, "the memory for tokens is bounded");
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::Algorithm;

    use super::*;
    use crate::inputs::oidc::keys::KeySet;

    const KEYS: &[u8] = br#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

    fn keys() -> (KeySet, Arc<Key>) {
        let keys = KeySet::read(KEYS, None).unwrap();
        let key = keys.fitting(None, Algorithm::EdDSA).next().unwrap().clone();
        (keys, key)
    }

    fn token(n: usize) -> [u8; 32] {
        let mut token = [0; 32];
        token[..8].copy_from_slice(&n.to_le_bytes());
        token
    }

    fn holder(until: u64, key: &Arc<Key>) -> Holder {
        let tenant = HeaderValue::from_static("acme");
        Holder { tenant, at: None, priority: Priority::Normal, until, key: key.clone() }
    }

    // A token is known until it expires or its key is withdrawn.
    #[test]
    fn tokens_are_forgotten_in_time() {
        let (seen, (keys, key)) = (Seen::default(), keys());
        seen.put(token(1), holder(100, &key));
        assert!(seen.get(&token(1), 99).is_some());
        assert!(seen.get(&token(2), 99).is_none());
        assert!(seen.get(&token(1), 100).is_none());
        assert!(seen.get(&token(1), 99).is_none());
        seen.put(token(1), holder(100, &key));
        assert!(KeySet::default().replaces(&keys));
        assert!(seen.get(&token(1), 99).is_none());
    }

    // Beyond the bound the tokens that were not used for longest are forgotten.
    #[test]
    fn memory_is_bounded() {
        let (seen, (_, key)) = (Seen::default(), keys());
        for n in 0..5 * MOST_YOUNG {
            seen.put(token(n + 1), holder(100, &key));
            seen.put(token(0), holder(100, &key));
            assert!(seen.get(&token(0), 1).is_some());
        }
        let inner = seen.0.lock();
        assert!(inner.young.len() <= MOST_YOUNG && inner.old.len() <= MOST_YOUNG);
        drop(inner);
        assert!(seen.get(&token(1), 1).is_none());
        assert!(seen.get(&token(5 * MOST_YOUNG), 1).is_some());
    }
}
