//! Salts for the engines' own prefix caches, if tenants share nothing.
//!
//! A salt is a keyed hash of the tenant and of the client's own salt. No client can address the
//! cache space of another tenant. All gateways with one secret compute the same salt, so a tenant
//! finds its prefixes again at any gateway.

use meridian_config::{Gateway as Config, Isolation};
use ring::hmac::{Context, HMAC_SHA256, Key};

#[derive(Debug)]
pub(crate) struct Salts(Option<Key>);

/// Bytes of the hash in a salt.
const BYTES: usize = 16;

impl Salts {
    /// Keyed by the fleet's secret; without one by `seed`, which no other gateway shares.
    pub(crate) fn new(config: &Config, seed: u64) -> Salts {
        let seed = seed.to_le_bytes();
        let secret = config.secret.as_ref().map_or(&seed[..], |s| s.expose().as_bytes());
        let isolates = config.isolation == Isolation::Tenant;
        Salts(isolates.then(|| Key::new(HMAC_SHA256, secret)))
    }

    /// The salt of a tenant's request, whose client sent the salt `own`. None if tenants share
    /// prefixes.
    pub(crate) fn of(&self, tenant: Option<&[u8]>, own: Option<&str>) -> Option<String> {
        let mut context = Context::with_key(self.0.as_ref()?);
        context.update(b"cache_salt");
        for part in [tenant, own.map(str::as_bytes)] {
            // The length comes first, so that no two pairs have the same encoding; none differs
            // from empty.
            let length = part.map_or(0, |part| part.len() as u64 + 1);
            context.update(&length.to_le_bytes());
            context.update(part.unwrap_or_default());
        }
        let hash = context.sign();
        Some(hash.as_ref()[..BYTES].iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn salts(yaml: &str) -> Salts {
        Salts::new(&Config::read(&format!("version: 1\n{yaml}")).expect("a configuration"), 7)
    }

    // The same secret yields the same salt. A different tenant, client salt or secret yields
    // another.
    #[test]
    fn keyed() {
        let a = salts("isolation: tenant\nsecret: abcdefghijklmnop\n");
        let b = salts("isolation: tenant\nsecret: abcdefghijklmnoq\n");
        let of = |salts: &Salts, tenant, own| salts.of(tenant, own).expect("tenants have salts");
        assert_eq!(of(&a, Some(b"t"), None), of(&a, Some(b"t"), None));
        assert_eq!(of(&a, Some(b"t"), None).len(), 2 * BYTES);
        let all = [
            of(&a, None, None),
            of(&a, Some(b""), None),
            of(&a, Some(b"t"), None),
            of(&a, Some(b"tu"), None),
            of(&a, Some(b"t"), Some("u")),
            of(&a, Some(b"t"), Some("")),
            of(&a, None, Some("tu")),
            of(&b, Some(b"t"), None),
        ];
        for (i, one) in all.iter().enumerate() {
            assert!(!all[..i].contains(one), "{i}");
        }
        assert_eq!(salts("secret: abcdefghijklmnop\n").of(Some(b"t"), None), None);
    }
}
