//! A new certificate: its subject, the names and addresses of that subject, and its lifetime.
//!
//! A gateway uses one certificate for both ends of a connection between peers, so it is valid for
//! servers and for clients. An operator's is valid for clients only.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use meridian_protocol::peer::Party;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair,
    KeyUsagePurpose, SanType,
};

use super::authority::{Authority, BACKDATE, Pair};
use super::facts::Facts;

/// A certificate to issue.
pub(super) struct Wish {
    pub(super) party: Party,
    /// Further DNS names of the subject.
    pub(super) dns: Vec<String>,
    pub(super) ips: Vec<IpAddr>,
    pub(super) lasts: Duration,
}

impl Wish {
    /// A renewal of `old`; `None` if `old` does not name a member of the fleet.
    pub(super) fn again(old: &Facts, lasts: Option<Duration>) -> Option<Wish> {
        let party = old.party.clone()?;
        let lasted = old.until.duration_since(old.from + BACKDATE).unwrap_or(BACKDATE);
        Some(Wish {
            party,
            dns: old.further_dns(),
            ips: old.ips.clone(),
            lasts: lasts.unwrap_or(lasted),
        })
    }

    /// When it expires: at the latest with its authority.
    pub(super) fn until(&self, authority: &Authority, now: SystemTime) -> SystemTime {
        (now + self.lasts).min(authority.facts.until)
    }

    /// Makes a key, and has the authority sign its certificate.
    pub(super) fn issue(&self, authority: &Authority, now: SystemTime) -> anyhow::Result<Pair> {
        let key = KeyPair::generate().context("cannot make a key")?;
        let mut params = self.params()?;
        params.not_before = (now - BACKDATE).into();
        params.not_after = self.until(authority, now).into();
        let cert = params.signed_by(&key, &authority.issuer).context("cannot sign")?;
        Ok(Pair { crt: cert.pem(), key: key.serialize_pem() })
    }

    /// Everything but the times.
    pub(super) fn params(&self) -> anyhow::Result<CertificateParams> {
        let mut params = CertificateParams::default();
        let party = &self.party;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, party.fleet());
        params.distinguished_name.push(DnType::OrganizationalUnitName, party.unit());
        params.distinguished_name.push(DnType::CommonName, party.name());
        let uri = party.uri().try_into().context("the fleet's name is not ASCII")?;
        params.subject_alt_names.push(SanType::URI(uri));
        for name in party.dns_name().iter().chain(&self.dns) {
            params.subject_alt_names.push(SanType::DnsName(dns(name)?));
        }
        params.subject_alt_names.extend(self.ips.iter().map(|ip| SanType::IpAddress(*ip)));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = match party {
            Party::Operator { .. } => vec![ExtendedKeyUsagePurpose::ClientAuth],
            _ => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
        };
        params.use_authority_key_identifier_extension = true;
        Ok(params)
    }
}

fn dns<T: for<'a> TryFrom<&'a str>>(name: &str) -> anyhow::Result<T> {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    let label = |l: &str| !l.is_empty() && l.len() <= 63 && l.bytes().all(inner);
    // A name may start with a wildcard.
    let labels = name.strip_prefix("*.").unwrap_or(name);
    let fits = name.len() <= 253 && labels.split('.').all(label);
    let parsed = T::try_from(name).ok().filter(|_| fits);
    parsed.with_context(|| {
        format!("--dns: `{name}` is not a DNS name; write one, as in eu.example.org")
    })
}
