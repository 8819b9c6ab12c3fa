//! Dials a peer: TCP and TLS, and a check that it is the expected gateway.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use meridian_protocol::peer::Identity;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::tls::Tls;
use crate::cause;

/// The first pause after a lost connection, and the longest one.
pub(super) const PAUSES: (Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(5));

/// Timeout for each step of the connection setup.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Why a peer could not be reached.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("{0} cannot be reached: {1}")]
    Connect(String, io::Error),
    #[error("{0}: {REMEDY}")]
    Stranger(String),
    #[error("{0}")]
    Named(#[from] meridian_tls::NameError),
    #[error("the certificate belongs to {0}")]
    Other(Identity),
}

/// The remedy if two gateways do not trust each other's certificates.
const REMEDY: &str = "the other side's certificate is of another authority; set the same \
                      peers.secret in both gateways, or certificates of one fleet in both";

/// The remedy for a failed handshake, if one side does not trust the other's certificate.
pub(super) fn remedy(error: &io::Error) -> Option<&'static str> {
    use rustls::{AlertDescription, CertificateError, Error};
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    let untrusted = matches!(
        error,
        Error::InvalidCertificate(CertificateError::UnknownIssuer)
            | Error::AlertReceived(AlertDescription::UnknownCA)
    );
    untrusted.then_some(REMEDY)
}

impl DialError {
    /// The cause in one word.
    pub(super) fn cause(&self) -> &'static str {
        match self {
            DialError::Connect(_, error) => cause::of_io(error),
            DialError::Stranger(_) | DialError::Named(_) | DialError::Other(_) => {
                cause::CERTIFICATE
            }
        }
    }
}

/// A connection to a peer, and the peer's certificate.
pub(super) struct Dialled {
    pub(super) stream: TlsStream<TcpStream>,
    pub(super) certificate: CertificateDer<'static>,
}

/// Connects to the gateway `identity` at `address`.
pub(super) async fn dial(
    own: &Tls,
    identity: &Identity,
    address: &str,
) -> Result<Dialled, DialError> {
    let (dialled, named) = connect(&own.connector(), identity, address).await?;
    if &named == identity { Ok(dialled) } else { Err(DialError::Other(named)) }
}

/// The gateway of this region at `address`.
pub(super) struct Sighting {
    pub(super) identity: Identity,
    /// Whether the address is one of this machine.
    pub(super) is_here: bool,
}

/// Finds out which gateway of this region is at `address`.
pub(super) async fn identify(own: &Tls, address: &str) -> Result<Sighting, DialError> {
    // Gateways have one certificate each, whichever name the client sends.
    let (dialled, identity) = connect(&own.finder(), &own.identity, address).await?;
    let (stream, _) = dialled.stream.get_ref();
    let ends = stream.local_addr().ok().zip(stream.peer_addr().ok());
    let is_here = |(a, b): (SocketAddr, SocketAddr)| a.ip() == b.ip() || b.ip().is_loopback();
    Ok(Sighting { identity, is_here: ends.is_some_and(is_here) })
}

/// Connects to a gateway; `name` is sent as its name.
async fn connect(
    connector: &TlsConnector,
    name: &Identity,
    address: &str,
) -> Result<(Dialled, Identity), DialError> {
    let unreachable = |error| DialError::Connect(address.to_owned(), error);
    let stream = TcpStream::connect(address).await.map_err(unreachable)?;
    stream.set_nodelay(true).map_err(unreachable)?;
    let name = ServerName::try_from(name.dns_name());
    let name = name.expect("labels and dots are a DNS name");
    let stream = connector.connect(name, stream).await.map_err(|error| match remedy(&error) {
        Some(_) => DialError::Stranger(address.to_owned()),
        None => unreachable(error),
    })?;
    let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let named = meridian_tls::identity(shown)?;
    let certificate = shown.ok_or(meridian_tls::NameError::None)?.clone().into_owned();
    Ok((Dialled { stream, certificate }, named))
}
