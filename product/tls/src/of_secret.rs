//! Certificates made from a secret that gateways share, in place of files.
//!
//! The secret is the seed of an authority's key, so every gateway that has it makes the same authority,
//! and issues a certificate to itself. Each handshake then proves that both sides have the secret. The
//! secret is never sent or compared, and connections are encrypted as with certificates from files. Who
//! has the secret can take any gateway's name.
//!
//! The key is derived slowly, since anyone who reaches the port can test guesses against its certificate.

use std::num::NonZeroU32;

use meridian_protocol::peer::{Identity, Party};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PKCS_ED25519, SanType,
};
use ring::digest::{SHA256, digest};
use ring::pbkdf2;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::files::Material;
use crate::revoked::Lists;

/// The fleet of gateways with a secret: they have no certificate that names one.
pub const FLEET: &str = "secret";

const SALT: &[u8] = b"meridian peers, secret, 1";
/// As OWASP advises for PBKDF2 with SHA-256.
const ROUNDS: NonZeroU32 = NonZeroU32::new(600_000).expect("is not 0");
/// The head of an Ed25519 key in PKCS #8, which its 32 bytes follow (RFC 8410).
const PKCS8: [u8; 16] = [48, 46, 2, 1, 0, 48, 5, 6, 3, 43, 101, 112, 4, 34, 4, 32];

/// One gateway's certificate and the authority that every gateway with the secret has.
pub struct OfSecret {
    authority: CertificateDer<'static>,
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

impl OfSecret {
    /// Makes the authority, and a certificate with a new key for the gateway.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub fn new(secret: &str, gateway: &Identity) -> Result<OfSecret, rcgen::Error> {
        let root = authority_key(secret)?;
        let shown = digest(&SHA256, root.public_key_raw());
        let shown = shown.as_ref().iter().take(8).map(|byte| format!("{byte:02x}"));
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        // The name differs with the secret, so another secret's certificate has an unknown issuer.
        let name = format!("Meridian secret {}", shown.collect::<String>());
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority = params.self_signed(&root)?.der().clone();
        let key = KeyPair::generate()?;
        let certificate = leaf(gateway)?.signed_by(&key, &Issuer::new(params, root))?;
        Ok(OfSecret { authority, certificate: certificate.der().clone(), key: key.serialize_der() })
    }

    /// The same as from files.
    ///
    /// # Errors
    /// Never for a certificate that was made here; otherwise rustls's own error.
    pub fn material(&self) -> Result<Material, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.clone())?;
        Ok(Material {
            roots: Some(roots),
            authorities: vec![self.authority.clone()],
            lists: Lists::default(),
            chain: vec![self.certificate.clone()],
            key: PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone())),
        })
    }
}

/// The authority's key.
fn authority_key(secret: &str) -> Result<KeyPair, rcgen::Error> {
    let mut der = [0; PKCS8.len() + 32];
    let (head, seed) = der.split_at_mut(PKCS8.len());
    head.copy_from_slice(&PKCS8);
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS, SALT, secret.as_bytes(), seed);
    KeyPair::from_pkcs8_der_and_sign_algo(&PrivatePkcs8KeyDer::from(der.as_slice()), &PKCS_ED25519)
}

/// A gateway's certificate, in the form that `meridian certs` gives it. It lasts as long as the process,
/// whatever the clock says.
fn leaf(gateway: &Identity) -> Result<CertificateParams, rcgen::Error> {
    let party = Party::Gateway(gateway.clone());
    let mut params = CertificateParams::new(party.dns_name().into_iter().collect::<Vec<_>>())?;
    params.subject_alt_names.push(SanType::URI(party.uri().try_into()?));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    Ok(params)
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::UnixTime;
    use rustls::server::WebPkiClientVerifier;
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::identity;
    use crate::sides::provider;

    fn made(secret: &str, name: &str) -> Material {
        let gateway = Identity::new(FLEET, "us", name).unwrap();
        OfSecret::new(secret, &gateway).unwrap().material().unwrap()
    }

    fn trusts(a: &mut Material, b: &Material) -> Result<(), rustls::Error> {
        let roots = Arc::new(a.roots.take().unwrap());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider());
        let now = UnixTime::since_unix_epoch(Duration::from_secs(1 << 31));
        verifier.build().unwrap().verify_client_cert(&b.chain[0], &[], now).map(drop)
    }

    // Two gateways with one secret trust each other, under their own names. With another secret they
    // do not.
    #[test]
    fn one_secret_is_one_authority() {
        let (mut a, b) = (made("a long secret", "us-1"), made("a long secret", "us-2"));
        assert_eq!(identity(b.certificate()).unwrap().to_string(), "us/us-2");
        assert_eq!(trusts(&mut a, &b), Ok(()));
        let unknown = rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer);
        assert_eq!(trusts(&mut made("another secret", "us-1"), &b), Err(unknown));
    }
}
