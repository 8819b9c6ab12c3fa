//! Who a certificate names.

use meridian_wire::peer::{Identity, Party};
use rustls::pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;

/// Why a certificate names no gateway.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// None came.
    #[error("no certificate was shown")]
    None,
    /// It is no certificate.
    #[error("the certificate cannot be read")]
    Unreadable,
    /// It names none, or several.
    #[error("the certificate names {0} gateways; `meridian certs issue` makes one that names one")]
    Names(usize),
    /// It is of the fleet, and not a gateway's.
    #[error(
        "the certificate is of {0}, and a gateway's is needed; use one of `meridian certs issue --gateway`"
    )]
    Other(Party),
}

/// The gateway that a certificate names: it names exactly one, and nobody else.
///
/// # Errors
/// When it names none.
pub fn identity(certificate: Option<&CertificateDer<'_>>) -> Result<Identity, NameError> {
    match party(certificate)? {
        Party::Gateway(identity) => Ok(identity),
        other => Err(NameError::Other(other)),
    }
}

/// Whom a certificate names: exactly one.
///
/// # Errors
/// When it names nobody of a fleet, or several.
pub fn party(certificate: Option<&CertificateDer<'_>>) -> Result<Party, NameError> {
    let der = certificate.ok_or(NameError::None)?;
    let unreadable = |_| NameError::Unreadable;
    let (_, certificate) =
        x509_parser::parse_x509_certificate(der).map_err(|_| NameError::Unreadable)?;
    let names = certificate.subject_alternative_name().map_err(unreadable)?;
    let names = names.iter().flat_map(|names| &names.value.general_names);
    let mut found: Vec<Party> = names
        .filter_map(|name| match name {
            GeneralName::URI(uri) => uri.parse().ok(),
            _ => None,
        })
        .collect();
    match found.pop() {
        Some(one) if found.is_empty() => Ok(one),
        Some(_) => Err(NameError::Names(found.len() + 1)),
        None => Err(NameError::Names(0)),
    }
}
