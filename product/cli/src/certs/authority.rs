//! A certificate authority: one key, one certificate that it signed itself.
//!
//! It may sign certificates of gateways, control planes and operators, but no further authorities.
//! Its certificate contains the name of the fleet, so a folder shows which fleet it belongs to.

use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData,
};

use super::facts::Facts;

/// The start of every authority's common name; its number follows.
pub(super) const COMMON_NAME: &str = "Meridian CA ";

/// Certificates are valid from this long before they are issued, because clocks differ.
pub(super) const BACKDATE: Duration = Duration::from_secs(3600);

/// A certificate and its key, as PEM.
pub(super) struct Pair {
    pub(super) crt: String,
    pub(super) key: String,
}

pub(super) struct Authority {
    pub(super) facts: Facts,
    pub(super) issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Makes authority `number` of a fleet.
    pub(super) fn make(
        fleet: &str,
        number: u32,
        lasts: Duration,
        now: SystemTime,
    ) -> anyhow::Result<Pair> {
        let key = KeyPair::generate().context("cannot make a key")?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, fleet);
        params.distinguished_name.push(DnType::CommonName, format!("{COMMON_NAME}{number}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.not_before = (now - BACKDATE).into();
        params.not_after = (now + lasts).into();
        let crt = params.self_signed(&key).context("cannot sign the authority")?.pem();
        Ok(Pair { crt, key: key.serialize_pem() })
    }

    /// Reads an authority that was made earlier.
    pub(super) fn load(facts: Facts, key_pem: &str) -> anyhow::Result<Authority> {
        let key = KeyPair::from_pem(key_pem)
            .context("is not a private key in PEM form; restore the .key file of the authority")?;
        if key.subject_public_key_info() != facts.key {
            bail!("is not the key of `{}`; restore the right one", facts.subject);
        }
        let issuer = Issuer::from_ca_cert_der(&facts.der.as_slice().into(), key);
        Ok(Authority { issuer: issuer.context("cannot issue")?, facts })
    }

    pub(super) fn fleet(&self) -> &str {
        self.facts.authority.as_ref().map_or("", |authority| &authority.fleet)
    }
}
