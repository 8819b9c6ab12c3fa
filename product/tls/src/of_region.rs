//! The client side of mutual TLS for a server whose name is not known before: any gateway of a region.
//!
//! The certificate is checked as always, against the name that it has itself. What is left out is only
//! the choice of one gateway among those of the region.

use std::sync::Arc;

use meridian_protocol::peer::Identity;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

use crate::identity::identity;

/// Accepts every gateway of one region.
#[derive(Debug)]
pub(crate) struct OfRegion {
    pub(crate) inner: Arc<WebPkiServerVerifier>,
    /// A gateway of that region.
    pub(crate) own: Identity,
}

impl ServerCertVerifier for OfRegion {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let named =
            identity(Some(end_entity)).map_err(|error| Error::General(error.to_string()))?;
        let name = ServerName::try_from(named.dns_name());
        let name = name.map_err(|error| Error::General(error.to_string()))?;
        let verified =
            self.inner.verify_server_cert(end_entity, intermediates, &name, ocsp_response, now)?;
        let (fleet, region) = (self.own.fleet(), self.own.region());
        if (named.fleet(), named.region()) != (fleet, region) {
            let other = format!(
                "the certificate belongs to {named} of fleet `{}`, and must be of region `{region}` of fleet `{fleet}`",
                named.fleet()
            );
            return Err(Error::General(other));
        }
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
