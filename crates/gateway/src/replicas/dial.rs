//! The address of a replica's server, and the way to connect to it.

use std::sync::Arc;

use http::uri::Authority;
use meridian_base::Duration;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::cause;
use crate::error::{AttemptError, Fault};
use crate::replicas::credentials::Credential;
use crate::replicas::socket::Socket;

/// The address of a server, with the trust and the key for it.
#[derive(Clone, Debug)]
pub(crate) struct Dial {
    /// Host and port, which identify the server.
    pub(crate) at: Authority,
    /// The name in its certificate, if it has https.
    name: Option<ServerName<'static>>,
    pub(crate) with: Arc<Credential>,
}

impl Dial {
    /// A server at a checked base address.
    pub(crate) fn new(url: &http::Uri, with: Arc<Credential>) -> Option<Dial> {
        let at = url.authority()?.clone();
        let name = match url.scheme_str() {
            Some("https") => {
                let host = at.host().trim_matches(['[', ']']).to_owned();
                Some(ServerName::try_from(host).ok()?)
            }
            _ => None,
        };
        Some(Dial { at, name, with })
    }

    /// Another server of the same replica, with plain HTTP.
    pub(crate) fn plain(&self, at: Authority) -> Dial {
        Dial { at, name: None, with: self.with.clone() }
    }

    /// The port, or the scheme's usual one.
    pub(crate) fn port(&self) -> u16 {
        self.at.port_u16().unwrap_or(if self.name.is_some() { 443 } else { 80 })
    }

    /// Connects within `limit`.
    pub(crate) async fn connect(&self, limit: Duration) -> Result<Socket, AttemptError> {
        match tokio::time::timeout(limit, self.open()).await {
            Ok(opened) => opened,
            Err(_) => {
                let ms = limit.as_millis();
                let message = format!("no connection within {ms} ms (timeouts.connect)");
                Err(AttemptError::of(Fault::Unreached, message).because(cause::TIMEOUT))
            }
        }
    }

    async fn open(&self) -> Result<Socket, AttemptError> {
        let failed = |message, cause| AttemptError::of(Fault::Unreached, message).because(cause);
        let address = (self.at.host().trim_matches(['[', ']']), self.port());
        let stream = TcpStream::connect(address).await;
        let stream = stream
            .map_err(|error| failed(format!("cannot connect: {error}"), cause::of_io(&error)))?;
        // Without it a small request waits for the replica's acknowledgement.
        let _ = stream.set_nodelay(true);
        let Some(name) = self.name.clone() else { return Ok(Socket::Plain(stream)) };
        let tls = self.with.tls().map_err(|problem| failed(problem, cause::CERTIFICATE))?;
        let secured = TlsConnector::from(tls).connect(name, stream).await;
        secured.map(|stream| Socket::Tls(Box::new(stream))).map_err(|error| {
            let message = format!("cannot connect with TLS: {error}{}", remedy(&error));
            failed(message, cause::of_io(&error))
        })
    }
}

/// The remedy for a failed handshake.
fn remedy(error: &std::io::Error) -> &'static str {
    use rustls::{CertificateError, Error};
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        Some(Error::InvalidCertificate(
            CertificateError::UnknownIssuer
            | CertificateError::BadSignature
            | CertificateError::UnknownRevocationStatus,
        )) => "; set `ca` in its `credentials` to the CA that issued its certificate",
        Some(Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => "; use a name of its certificate in `url`",
        Some(Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        )) => "; renew its certificate, or correct the clocks",
        Some(Error::InvalidMessage(_)) => "; write http:// if it has no TLS",
        _ => "",
    }
}
