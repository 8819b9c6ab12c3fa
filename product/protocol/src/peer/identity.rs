//! A gateway's identity: fleet, region and name, as in its certificate.
//!
//! A certificate contains it twice. Operators and the other side read a URI in the form of SPIFFE
//! ids. A DNS name made of the same three parts lets TLS's own name check verify the dialled
//! gateway, whatever its address. Each part is therefore a DNS label.
//!
//! Deliberately not here: certificates. Their reader has extracted these names.

use std::fmt;
use std::str::FromStr;

/// Longest part: the limit of a DNS label.
const MOST: usize = 63;
const _: () = assert!(3 * MOST + 2 <= 253, "three parts make a DNS name");

/// One gateway of a fleet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    fleet: String,
    region: String,
    gateway: String,
}

/// Why a text is not an identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// A part is not a valid label.
    #[error(
        "{part}: `{value}` is not a name; use lower-case letters, digits and hyphens, a letter first, at most {MOST} characters"
    )]
    Label {
        /// `fleet`, `region` or `gateway`.
        part: &'static str,
        /// The text received.
        value: String,
    },
    /// The URI has another form.
    #[error("`{0}` does not name a gateway; use spiffe://FLEET/region/REGION/gateway/NAME")]
    Uri(String),
}

impl Identity {
    /// The gateway `gateway` of `region` in `fleet`.
    ///
    /// # Errors
    /// If one of them is not a DNS label in lower case.
    pub fn new(fleet: &str, region: &str, gateway: &str) -> Result<Identity, IdentityError> {
        let part = |part, value| label(part, value).map(|()| value.to_owned());
        Ok(Identity {
            fleet: part("fleet", fleet)?,
            region: part("region", region)?,
            gateway: part("gateway", gateway)?,
        })
    }

    /// The fleet, which has a CA of its own.
    #[must_use]
    pub fn fleet(&self) -> &str {
        &self.fleet
    }

    /// The region it serves.
    #[must_use]
    pub fn region(&self) -> &str {
        &self.region
    }

    /// Its own name, unique in the region.
    #[must_use]
    pub fn gateway(&self) -> &str {
        &self.gateway
    }

    /// The URI of its certificate.
    #[must_use]
    pub fn uri(&self) -> String {
        format!("spiffe://{}/region/{}/gateway/{}", self.fleet, self.region, self.gateway)
    }

    /// The DNS name of its certificate, which a dialling peer expects.
    #[must_use]
    pub fn dns_name(&self) -> String {
        format!("{}.{}.{}", self.gateway, self.region, self.fleet)
    }
}

/// Checks one part of an identity.
///
/// # Errors
/// If it is not a DNS label in lower case that starts with a letter.
pub fn label(part: &'static str, value: &str) -> Result<(), IdentityError> {
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    let bytes = value.as_bytes();
    let ok = bytes.len() <= MOST
        && bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.last().is_some_and(|b| *b != b'-')
        && bytes.iter().all(inner);
    if ok { Ok(()) } else { Err(IdentityError::Label { part, value: shown(value) }) }
}

/// The start of a text from an untrusted sender, for a message.
fn shown(value: &str) -> String {
    value.chars().take(MOST + 1).collect()
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.region, self.gateway)
    }
}

impl FromStr for Identity {
    type Err = IdentityError;

    fn from_str(uri: &str) -> Result<Identity, IdentityError> {
        let parts = || {
            let (fleet, rest) = uri.strip_prefix("spiffe://")?.split_once("/region/")?;
            let (region, gateway) = rest.split_once("/gateway/")?;
            Some((fleet, region, gateway))
        };
        let (fleet, region, gateway) =
            parts().ok_or_else(|| IdentityError::Uri(uri.chars().take(4 * MOST).collect()))?;
        Identity::new(fleet, region, gateway)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The URI reads back as the same gateway, and the DNS name contains the three parts.
    #[test]
    fn uri_reads_back() {
        let one = Identity::new("prod", "eu", "eu-1").expect("are labels");
        assert_eq!(one.uri(), "spiffe://prod/region/eu/gateway/eu-1");
        assert_eq!(one.uri().parse(), Ok(one.clone()));
        assert_eq!(one.dns_name(), "eu-1.eu.prod");
    }

    // Any text that could smuggle another part into a URI or a DNS name is refused, and the error
    // names the part.
    #[test]
    fn no_label_is_refused() {
        let long = "a".repeat(64);
        for bad in ["", "EU", "eu.1", "eu/1", "-eu", "eu-", "1eu", "eu 1", "\u{fc}", &long] {
            let error = Identity::new("prod", bad, "a").expect_err("is not a label");
            assert!(error.to_string().starts_with("region: "), "{error}");
        }
        for bad in ["spiffe://prod/region/eu", "https://prod/region/eu/gateway/a", ""] {
            assert!(matches!(bad.parse::<Identity>(), Err(IdentityError::Uri(_))), "{bad}");
        }
        let twice = "spiffe://prod/region/eu/gateway/a/gateway/b";
        assert!(twice.parse::<Identity>().is_err());
    }
}
