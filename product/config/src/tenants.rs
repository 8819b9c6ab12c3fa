//! Tenants and their API keys.
//!
//! The file contains the SHA-256 of each key, so reading it reveals no key. A slow hash, as for
//! passwords, would add no protection: a key is long and random (`meridian tenant-key --new`), so
//! it can't be found by guessing, and every request would pay for the hash.

use std::fmt;

use meridian_base::residency::Labels;
use meridian_routing::Priority;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::Secret;
use super::residency::check_labels;

/// Most keys of all tenants: each request's key is compared with all of them.
const MOST_KEYS: usize = 1024;
/// Most units a minute: above this, nanoseconds are too coarse to tell single units apart.
pub(super) const MOST_A_MINUTE: u32 = 1_000_000_000;
/// Longest name.
const MOST_NAME: usize = 64;

/// One tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tenant {
    /// Its name, in rules and between gateways.
    pub name: String,
    /// Its keys, as `meridian tenant-key` prints them. Several during a rotation; none for a tenant
    /// whose clients use other gateways.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "some_keys")]
    pub keys: Vec<KeyHash>,
    /// Labels that rules refer to.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Its rate limits at this gateway.
    #[serde(default, skip_serializing_if = "TenantLimits::is_empty")]
    pub limits: TenantLimits,
    /// The priority class of its requests in the queue.
    #[serde(default, skip_serializing_if = "PriorityClass::is_default")]
    pub priority: PriorityClass,
}

/// A tenant's rate limits per minute, for bursts and steady load together. An absent limit means
/// none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantLimits {
    /// Requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_minute: Option<u32>,
    /// Tokens of prompts and replies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<u32>,
}

impl TenantLimits {
    /// Whether no limit is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == TenantLimits::default()
    }
}

/// A priority class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PriorityClass {
    /// Work that can wait.
    Low,
    /// Everything else.
    #[default]
    Normal,
    /// Leaves the queue first.
    High,
}

impl PriorityClass {
    fn is_default(&self) -> bool {
        *self == PriorityClass::default()
    }
}

impl From<PriorityClass> for Priority {
    fn from(class: PriorityClass) -> Priority {
        match class {
            PriorityClass::Low => Priority::Low,
            PriorityClass::Normal => Priority::Normal,
            PriorityClass::High => Priority::High,
        }
    }
}

/// Reads a list that may be absent, and not empty: a tenant without keys shows in its clients' 401s.
fn some_keys<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<KeyHash>, D::Error> {
    let keys = Vec::<KeyHash>::deserialize(from)?;
    if keys.is_empty() {
        return Err(D::Error::custom(
            "is empty, so each request of this tenant gets a 401; add the hash that `meridian tenant-key` prints, or remove the line if its clients send tokens or use other gateways",
        ));
    }
    Ok(keys)
}

/// The SHA-256 of a key, written `sha256:` and 64 hex digits. None if the text is something else.
/// The configuration check reports that without showing the text, since it may be the key itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Secret", into = "String")]
pub struct KeyHash(pub Option<[u8; 32]>);

impl KeyHash {
    /// The hash of a key.
    #[must_use]
    pub fn of(key: &[u8]) -> KeyHash {
        let hash = ring::digest::digest(&ring::digest::SHA256, key);
        KeyHash(Some(hash.as_ref().try_into().expect("SHA-256 has 32 bytes")))
    }

    /// Whether it is four bytes over and over, as the hashes of examples are.
    pub(crate) fn is_example(&self) -> bool {
        self.0.is_some_and(|hash| hash.windows(5).all(|some| some[0] == some[4]))
    }
}

impl From<Secret> for KeyHash {
    fn from(text: Secret) -> KeyHash {
        KeyHash(read(text.expose()))
    }
}

fn read(text: &str) -> Option<[u8; 32]> {
    let hex = text.strip_prefix("sha256:")?.as_bytes();
    let digit = |b: u8| char::from(b).to_digit(16);
    let mut hash = [0; 32];
    if hex.len() != 64 {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(hex.chunks_exact(2)) {
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Some(hash)
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(hash) = &self.0 else { return f.write_str("(no hash)") };
        f.write_str("sha256:")?;
        hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl From<KeyHash> for String {
    fn from(hash: KeyHash) -> String {
        hash.to_string()
    }
}

/// Checks the tenants of a configuration.
pub(super) fn check(tenants: &[Tenant], check: &mut impl FnMut(bool, String)) {
    let keys: Vec<(usize, &KeyHash)> =
        tenants.iter().enumerate().flat_map(|(i, t)| t.keys.iter().map(move |k| (i, k))).collect();
    check(
        keys.len() <= MOST_KEYS,
        format!("tenants: {} keys are listed; use at most {MOST_KEYS}", keys.len()),
    );
    for (at, (i, key)) in keys.iter().enumerate() {
        check(
            key.0.is_some(),
            format!(
                "tenants[{i}].keys: one is not the hash of a key; copy the hash that `meridian tenant-key` prints, sha256: and 64 hex digits"
            ),
        );
        if key.0.is_none() {
            continue;
        }
        // As `sha256sum` prints them for a key that was not given.
        check(
            ![KeyHash::of(b""), KeyHash::of(b"\n")].contains(key),
            format!(
                "tenants[{i}].keys: one is the hash of an empty key; hash the key itself with `meridian tenant-key`"
            ),
        );
        if let Some((j, _)) = keys[..at].iter().find(|(_, known)| known == key) {
            let (this, other) = (&tenants[*i].name, &tenants[*j].name);
            check(
                false,
                format!(
                    "tenants[{i}].keys: {this} and {other} share a key; give each tenant its own"
                ),
            );
        }
    }
    for (i, tenant) in tenants.iter().enumerate() {
        check(
            is_name(&tenant.name),
            format!(
                "tenants[{i}].name: `{}` is not a name; use 1 to {MOST_NAME} letters, digits and . _ -",
                tenant.name.chars().take(MOST_NAME).collect::<String>()
            ),
        );
        let twin = tenants[..i].iter().position(|known| known.name == tenant.name);
        if let Some(j) = twin {
            check(
                false,
                format!("tenants[{i}].name: `{}` is also tenants[{j}]; remove one", tenant.name),
            );
        }
        check_labels(&format!("tenants[{i}].labels"), &tenant.labels, check);
        check_limits(i, &tenant.limits, check);
    }
}

fn check_limits(i: usize, limits: &TenantLimits, check: &mut impl FnMut(bool, String)) {
    let TenantLimits { requests_per_minute: requests, tokens_per_minute: tokens } = limits;
    for (name, limit) in [("requests_per_minute", requests), ("tokens_per_minute", tokens)] {
        let Some(limit) = *limit else { continue };
        let remedy = match limit {
            0 => "remove its keys to shut a tenant out",
            _ => "remove the line for no limit",
        };
        check(
            (1..=MOST_A_MINUTE).contains(&limit),
            format!(
                "tenants[{i}].limits.{name}: {limit} is out of range; use 1 to {MOST_A_MINUTE}, or {remedy}"
            ),
        );
    }
}

fn is_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    (1..=MOST_NAME).contains(&name.len()) && name.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gateway;

    // A hash reads back. Any other text is refused and not shown.
    #[test]
    fn hashes() {
        let text = format!("sha256:{}", "0a".repeat(32));
        let hash = KeyHash::from(Secret::from(&*text));
        assert_eq!((hash.0, hash.to_string()), (Some([10; 32]), text));
        for bad in ["mk-secret", "sha256:0a", &format!("sha256:{}", "zz".repeat(32))] {
            assert_eq!(KeyHash::from(Secret::from(bad)).0, None);
            let yaml = format!("version: 1\ntenants: [{{name: a, keys: ['{bad}']}}]\n");
            let error = Gateway::read(&yaml).unwrap_err().to_string();
            assert!(!error.contains(bad), "{error}");
            assert!(error.starts_with("tenants[0].keys: one is not the hash of a key"), "{error}");
        }
    }

    // Limits and a class are read and printed back. A limit of zero, or one too large to count, is
    // refused with its field.
    #[test]
    fn limits_and_classes() {
        let of = |text: &str| {
            Gateway::read(&format!(
                "version: 1\ntenants: [{{name: a, keys: ['sha256:{}'], {text}}}]\n",
                "0a".repeat(32)
            ))
        };
        let read = of("limits: {requests_per_minute: 60, tokens_per_minute: 40000}, priority: low");
        let read = read.expect("is a configuration");
        let limits =
            TenantLimits { requests_per_minute: Some(60), tokens_per_minute: Some(40_000) };
        assert_eq!(
            (read.tenants[0].limits, read.tenants[0].priority),
            (limits, PriorityClass::Low)
        );
        assert_eq!(Gateway::read(&read.print().expect("prints")).expect("reads back"), read);
        for (text, field) in [
            ("limits: {requests_per_minute: 0}", "tenants[0].limits.requests_per_minute: 0 is"),
            ("limits: {tokens_per_minute: 2000000000}", "tenants[0].limits.tokens_per_minute: 2"),
            ("priority: urgent", "urgent"),
            ("limits: {rpm: 1}", "rpm"),
        ] {
            let error = of(text).expect_err("is refused").to_string();
            assert!(error.contains(field), "{error}");
        }
    }

    // No two tenants share a name or a key.
    #[test]
    fn twins_are_refused() {
        let key = format!("sha256:{}", "0a".repeat(32));
        let yaml = format!(
            "version: 1\ntenants:\n  - {{name: a, keys: ['{key}']}}\n  - {{name: a, keys: ['{key}']}}\n  - {{name: 'b c'}}\n"
        );
        let error = Gateway::read(&yaml).unwrap_err().to_string();
        for part in [
            "tenants[1].keys: a and a share a key",
            "tenants[1].name: `a` is also tenants[0]",
            "tenants[2].name: `b c` is not a name",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
}
