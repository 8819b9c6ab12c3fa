//! Certificate revocation lists: certificates of the fleet that are no longer accepted.
//!
//! rustls refuses revoked certificates in handshakes. This module covers two further cases:
//! connections that are open when a list changes, and lists that rustls would reject only at the
//! next handshake. A list counts only if a trusted CA signed it. Lists of other CAs are ignored,
//! since their certificates are refused anyway; during a CA rotation such lists are normal.
//!
//! A list whose next update is overdue stays in force. Refusing every certificate because a list is
//! old would stop a fleet without an attacker. `meridian check` and the log name such a list.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

use crate::files::{pem_bytes, plain};

/// The revoked certificates: issuer and serial number, as encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revoked {
    certificates: BTreeSet<(Vec<u8>, Vec<u8>)>,
    /// When the first of the lists should have been replaced.
    due: Option<SystemTime>,
}

/// The lists of a file, for rustls, and their entries.
#[derive(Default)]
pub(crate) struct Lists {
    pub(crate) ders: Vec<CertificateRevocationListDer<'static>>,
    pub(crate) revoked: Revoked,
}

impl Revoked {
    /// Whether a certificate is revoked. An unreadable certificate is not: no handshake accepts it.
    #[must_use]
    pub fn has(&self, certificate: &CertificateDer<'_>) -> bool {
        if self.certificates.is_empty() {
            return false;
        }
        let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return false };
        let issuer = certificate.issuer().as_raw().to_vec();
        self.certificates.contains(&(issuer, serial(certificate.raw_serial())))
    }

    /// How many certificates are revoked.
    #[must_use]
    pub fn len(&self) -> usize {
        self.certificates.len()
    }

    /// Whether no certificate is revoked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.certificates.is_empty()
    }

    /// Whether a list should have been replaced by now.
    #[must_use]
    pub fn is_overdue(&self, now: SystemTime) -> bool {
        self.due.is_some_and(|due| due < now)
    }
}

/// A serial number without leading zeros.
fn serial(raw: &[u8]) -> Vec<u8> {
    raw.iter().copied().skip_while(|byte| *byte == 0).collect()
}

/// Reads the lists at `path` for the trusted CAs. Of several lists of one CA, the one with the
/// highest number counts.
pub(crate) fn read(path: &Path, authorities: &[CertificateDer<'static>]) -> Result<Lists, String> {
    let unread = |error: pem::Error| plain(&error, "revocation list");
    let bytes = pem_bytes(path)?;
    let ders: Vec<_> = CertificateRevocationListDer::pem_slice_iter(&bytes)
        .collect::<Result<_, _>>()
        .map_err(unread)?;
    let mut newest: Vec<(CertificateRevocationList<'_>, &CertificateRevocationListDer<'static>)> =
        Vec::new();
    for der in &ders {
        let (_, list) = CertificateRevocationList::from_der(der)
            .map_err(|_| "contains a damaged revocation list".to_owned())?;
        if !is_of_one(&list, authorities)? {
            continue;
        }
        match newest.iter_mut().find(|(known, _)| known.issuer().as_raw() == list.issuer().as_raw())
        {
            // rustls asks only one list per issuer: the others must not replace it.
            Some(known) if known.0.crl_number() <= list.crl_number() => *known = (list, der),
            Some(_) => {}
            None => newest.push((list, der)),
        }
    }
    let mut lists = Lists::default();
    for (list, der) in newest {
        lists.revoked.add(&list);
        lists.ders.push(der.clone());
    }
    match (ders.len(), lists.ders.len()) {
        (0, _) => Err("contains no revocation list (-----BEGIN X509 CRL-----)".to_owned()),
        (_, 0) => Err("contains no revocation list of an authority in `ca`".to_owned()),
        _ => Ok(lists),
    }
}

/// Whether a trusted CA issued and signed the list.
fn is_of_one(
    list: &CertificateRevocationList<'_>,
    authorities: &[CertificateDer<'static>],
) -> Result<bool, String> {
    let mut is_named = false;
    for authority in authorities {
        let Ok((_, authority)) = X509Certificate::from_der(authority) else { continue };
        if authority.subject().as_raw() != list.issuer().as_raw() {
            continue;
        }
        is_named = true;
        if list.verify_signature(authority.public_key()).is_ok() {
            return Ok(true);
        }
    }
    match is_named {
        false => Ok(false),
        true => {
            let issuer = list.issuer();
            Err(format!("the revocation list of `{issuer}` is not signed with the key in `ca`"))
        }
    }
}

impl Revoked {
    fn add(&mut self, list: &CertificateRevocationList<'_>) {
        let issuer = list.issuer().as_raw().to_vec();
        let entries = list.iter_revoked_certificates();
        let pairs = entries.map(|entry| (issuer.clone(), serial(entry.raw_serial())));
        self.certificates.extend(pairs);
        let due = list.next_update().and_then(|at| u64::try_from(at.timestamp()).ok());
        let due = due.map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        self.due = [self.due, due].into_iter().flatten().min();
    }
}
