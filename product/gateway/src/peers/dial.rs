//! Dials a peer: TCP and TLS, and a check that it is the expected gateway.

use std::io;
use std::time::Duration;

use meridian_protocol::peer::Identity;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
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
    #[error("{0}")]
    Named(#[from] meridian_tls::NameError),
    #[error("the certificate belongs to {0}")]
    Other(Identity),
}

impl DialError {
    /// The cause in one word.
    pub(super) fn cause(&self) -> &'static str {
        match self {
            DialError::Connect(_, error) => cause::of_io(error),
            DialError::Named(_) | DialError::Other(_) => cause::CERTIFICATE,
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
    let unreachable = |error| DialError::Connect(address.to_owned(), error);
    let stream = TcpStream::connect(address).await.map_err(unreachable)?;
    stream.set_nodelay(true).map_err(unreachable)?;
    let name = ServerName::try_from(identity.dns_name());
    let name = name.expect("labels and dots are a DNS name");
    let stream = own.connector().connect(name, stream).await.map_err(unreachable)?;
    let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let named = meridian_tls::identity(shown)?;
    let certificate = shown.ok_or(meridian_tls::NameError::None)?.clone().into_owned();
    if &named == identity {
        Ok(Dialled { stream, certificate })
    } else {
        Err(DialError::Other(named))
    }
}
