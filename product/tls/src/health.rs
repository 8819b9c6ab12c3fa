//! Problems of certificates that can still be used. The process logs them and starts anyway: a
//! gateway whose certificate has expired still serves its own clients.

use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

use crate::files::{FileError, Files, Material};

impl Files {
    /// Every reason why the other side would refuse `material`.
    #[must_use]
    pub fn doubts(&self, material: &Material, now: SystemTime) -> Vec<FileError> {
        let mut doubts = Vec::new();
        for certificate in &material.chain {
            match X509Certificate::from_der(certificate) {
                Ok((_, certificate)) => doubts.extend(self.dates("certificate", &certificate, now)),
                Err(_) => doubts.push(self.error("certificate", "cannot be read")),
            }
        }
        for authority in &material.authorities {
            if let Ok((_, authority)) = X509Certificate::from_der(authority) {
                doubts.extend(self.dates("ca", &authority, now));
            }
        }
        if material.chain.iter().any(|certificate| material.lists.revoked.has(certificate)) {
            let problem = "is revoked, so all other programs refuse it";
            doubts.push(self.error("certificate", problem));
        }
        if material.lists.revoked.is_overdue(now) {
            let problem = "is past its next update; it stays in use";
            doubts.push(self.error("crl", problem));
        }
        doubts
    }

    /// Whether the certificate comes from a CA that is not in `ca`, when both sides of a connection
    /// trust the same CAs.
    #[must_use]
    pub fn mismatch(&self, material: &Material) -> Option<FileError> {
        let problem = "is not issued by an authority in `ca`, so all other programs refuse it";
        (!is_issued_by_one(material)).then(|| self.error("certificate", problem))
    }

    fn dates(
        &self,
        field: &'static str,
        certificate: &X509Certificate<'_>,
        now: SystemTime,
    ) -> Option<FileError> {
        let validity = certificate.validity();
        let subject = certificate.subject();
        let problem = if time(validity.not_before) > now {
            format!("`{subject}` is not valid before {}", validity.not_before)
        } else if time(validity.not_after) < now {
            format!("`{subject}` expired on {}", validity.not_after)
        } else {
            return None;
        };
        let error = self.error(field, problem);
        Some(FileError {
            remedy: "renew it with `meridian certs rotate`, or set the clock",
            ..error
        })
    }
}

impl Material {
    /// When the certificate expires, in seconds since 1970; 0 if it can't be read.
    #[must_use]
    pub fn expires(&self) -> u64 {
        let parsed = self.chain.first().and_then(|leaf| X509Certificate::from_der(leaf).ok());
        let seconds = parsed.map_or(0, |(_, leaf)| leaf.validity().not_after.timestamp());
        u64::try_from(seconds).unwrap_or(0)
    }
}

/// Whether a trusted CA signed the last certificate of the chain.
fn is_issued_by_one(material: &Material) -> bool {
    let Some(Ok((_, last))) = material.chain.last().map(|der| X509Certificate::from_der(der))
    else {
        return false;
    };
    let signed = |authority: &CertificateDer<'static>| {
        let Ok((_, authority)) = X509Certificate::from_der(authority) else { return false };
        authority.subject().as_raw() == last.issuer().as_raw()
            && last.verify_signature(Some(authority.public_key())).is_ok()
    };
    material.authorities.iter().any(signed)
}

fn time(at: ASN1Time) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(at.timestamp()).unwrap_or(0))
}
