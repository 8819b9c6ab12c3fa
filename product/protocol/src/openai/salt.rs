//! The salt of an engine's prefix cache: requests with different salts share no cached block there.
//!
//! vLLM and SGLang read `cache_salt` (SGLang joins it with `extra_key`, so a client's `extra_key`
//! can only divide a tenant's space further). The salt takes the place of the client's own, or
//! becomes the body's first member.

use bytes::Bytes;

use super::body::Body;
use super::request::RequestInfo;
use super::splice::{Purpose, Splice, offset};

/// Position of the salt in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SaltPlace {
    /// In place of the client's salt, at its value.
    Value { at: usize, len: usize },
    /// As a new member.
    Member { at: usize },
}

impl SaltPlace {
    /// The position in a body whose text is `json`, an object with at least one other member.
    pub(super) fn of(json: &str, body: &Body<'_>) -> SaltPlace {
        match body.raw("cache_salt") {
            Some(value) => SaltPlace::Value { at: offset(json, value), len: value.get().len() },
            None => SaltPlace::Member { at: json.find('{').unwrap_or_default() + 1 },
        }
    }

    /// The splice that inserts `salt`, which consists of letters and digits.
    pub(super) fn splice(self, salt: &str) -> Splice {
        let is_plain = salt.bytes().all(|byte| byte.is_ascii_alphanumeric());
        assert!(is_plain, "a salt goes into JSON as it is");
        let (at, remove, insert) = match self {
            SaltPlace::Value { at, len } => (at, len, format!("\"{salt}\"")),
            SaltPlace::Member { at } => (at, 0, format!("\"cache_salt\":\"{salt}\",")),
        };
        Splice { purpose: Purpose::CacheSalt, at, remove, insert: Bytes::from(insert) }
    }
}

impl RequestInfo {
    /// Adds the splice that separates an engine's cache: `salt` consists of letters and digits. On
    /// paths outside the API nothing is added.
    ///
    /// # Panics
    /// If it has one already, or the salt consists of anything else.
    pub fn salt(&mut self, salt: &str) {
        if let Some(place) = self.salt_place {
            assert!(!self.splices.has(Purpose::CacheSalt), "a body is salted once");
            self.splices.push(place.splice(salt));
        }
    }
}
