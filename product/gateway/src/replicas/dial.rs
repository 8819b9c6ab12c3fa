//! The address of a replica's server, and the way to connect to it.

use std::io;
use std::sync::Arc;

use http::uri::Authority;
use meridian_base::Duration;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::cause;
use crate::fault::{AttemptError, Fault};
use crate::replicas::credentials::Credential;
use crate::replicas::socket::Socket;

/// The address of a server, with the trust and the key for it. Requests share it.
#[derive(Debug)]
pub(crate) struct Dial {
    /// Host and port, which identify the server.
    pub(crate) at: Authority,
    /// The name in its certificate, if it has https.
    name: Option<ServerName<'static>>,
    pub(crate) with: Arc<Credential>,
}

impl Dial {
    /// A server at a checked base address.
    ///
    /// None if it has https, and its host cannot be in a certificate.
    pub(crate) fn new(url: &http::Uri, with: Arc<Credential>) -> Option<Arc<Dial>> {
        let at = url.authority()?.clone();
        let name = match url.scheme_str() {
            Some("https") => {
                let host = at.host().trim_matches(['[', ']']).to_owned();
                Some(ServerName::try_from(host).ok()?)
            }
            _ => None,
        };
        Some(Arc::new(Dial { at, name, with }))
    }

    /// Another server of the same replica, with plain HTTP. It gets no key that is only for https.
    pub(crate) fn plain(&self, at: Authority) -> Arc<Dial> {
        let with = if self.has_tls() { Arc::default() } else { self.with.clone() };
        Arc::new(Dial { at, name: None, with })
    }

    /// The port, or the scheme's usual one.
    pub(crate) fn port(&self) -> u16 {
        self.at.port_u16().unwrap_or(if self.name.is_some() { 443 } else { 80 })
    }

    /// Whether the connection has TLS.
    pub(crate) fn has_tls(&self) -> bool {
        self.name.is_some()
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
        let tls = self.with.now().tls().map_err(|problem| failed(problem, cause::CERTIFICATE))?;
        let secured = TlsConnector::from(tls).connect(name, stream).await;
        secured.map(|stream| Socket::Tls(Box::new(stream))).map_err(|error| {
            let remedy = match error.kind() {
                io::ErrorKind::UnexpectedEof => NO_TLS,
                _ => remedy(&error),
            };
            let message = format!("cannot connect with TLS: {error}{remedy}");
            failed(message, cause::of_io(&error))
        })
    }
}

/// The remedy for a port that ends the connection, or answers in another protocol.
const NO_TLS: &str = "; write http:// in `url` if the port has no TLS";

/// The remedy for an error of TLS; nothing for other errors.
pub(crate) fn remedy(error: &io::Error) -> &'static str {
    use rustls::{AlertDescription as Alert, CertificateError as Certificate, Error};
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    match inner {
        Some(Error::InvalidCertificate(wrong)) => match wrong {
            Certificate::NotValidForName | Certificate::NotValidForNameContext { .. } => {
                "; write a name of its certificate in `url`"
            }
            Certificate::Expired | Certificate::ExpiredContext { .. } => {
                "; renew its certificate, or correct the clocks"
            }
            Certificate::NotValidYet | Certificate::NotValidYetContext { .. } => {
                "; correct the clocks, or wait until its certificate is valid"
            }
            Certificate::InvalidPurpose | Certificate::InvalidPurposeContext { .. } => {
                "; give it a certificate for servers"
            }
            _ => "; set `ca` of its `credentials` to the authority that issued its certificate",
        },
        Some(Error::InvalidMessage(_)) => NO_TLS,
        Some(Error::AlertReceived(alert)) => match alert {
            Alert::CertificateRequired => {
                "; it asks for a certificate: set `certificate` and `key` of its `credentials`"
            }
            Alert::UnknownCA
            | Alert::BadCertificate
            | Alert::CertificateUnknown
            | Alert::CertificateExpired
            | Alert::CertificateRevoked
            | Alert::DecryptError
            | Alert::AccessDenied => {
                "; it refuses this gateway's certificate: correct `certificate` of its `credentials`"
            }
            Alert::UnrecognisedName => "; write a name that it serves in `url`",
            _ => "",
        },
        _ => "",
    }
}
