//! The identity in a certificate.

use meridian_protocol::peer::{Identity, Party};
use rustls::pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;

/// Why a certificate identifies no gateway.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The client sent no certificate.
    #[error("no certificate was sent")]
    None,
    /// The data is not a certificate.
    #[error("the certificate cannot be read")]
    Unreadable,
    /// The certificate has no name, or several.
    #[error("the certificate names {0} gateways; `meridian certs issue` makes one that names one")]
    Names(usize),
    /// The certificate belongs to the fleet, but not to a gateway.
    #[error(
        "the certificate belongs to {0}, and must be a gateway's; use one from `meridian certs issue --gateway`"
    )]
    Other(Party),
}

/// The gateway that a certificate names. It must name exactly one, and nothing else.
///
/// # Errors
/// If it names no gateway.
pub fn identity(certificate: Option<&CertificateDer<'_>>) -> Result<Identity, NameError> {
    match party(certificate)? {
        Party::Gateway(identity) => Ok(identity),
        other => Err(NameError::Other(other)),
    }
}

/// The party that a certificate names: exactly one.
///
/// # Errors
/// If it names no party of a fleet, or several.
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
