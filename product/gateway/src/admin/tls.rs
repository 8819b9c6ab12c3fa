//! TLS on the admin port, and the identity of its clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use meridian_config as config;
use meridian_protocol::peer::Party;
use meridian_tls::{FileError, Files, Look, Reread, Revoked, open_server, party};
use rustls::pki_types::CertificateDer;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::http::connection_slots::ConnectionSlot;

/// Facts about one connection that its answers depend on.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) address: SocketAddr,
    /// The local port.
    pub(crate) port: u16,
    pub(crate) tls: bool,
    /// The party named by the client's certificate, if any.
    pub(crate) party: Option<Party>,
    /// The connection's place, which stays its own once a request was admitted.
    pub(crate) place: Arc<ConnectionSlot>,
}

impl Caller {
    /// Name of the session cookie. A cookie belongs to a host, whatever the port: gateways on one
    /// machine must not overwrite each other's.
    pub(super) fn cookie(&self) -> String {
        format!("meridian_admin_{}", self.port)
    }
}

/// TLS on the admin port.
pub(crate) struct AdminTls(Reread<Side>);

struct Side {
    acceptor: TlsAcceptor,
    revoked: Revoked,
    expires: u64,
}

/// A connection, and the client's identity if it showed a certificate.
pub(crate) struct Met {
    pub(crate) stream: TlsStream<TcpStream>,
    pub(crate) party: Option<Party>,
    certificate: Option<CertificateDer<'static>>,
}

/// The files that `admin_access.tls` names.
pub(crate) fn files(tls: &config::AdminTls) -> Files {
    Files {
        section: "admin_access.tls".into(),
        ca: tls.ca.clone(),
        crl: tls.crl.clone(),
        certificate: tls.certificate.clone(),
        key: tls.key.clone(),
    }
}

impl AdminTls {
    pub(crate) fn load(tls: &config::AdminTls) -> Result<AdminTls, FileError> {
        let files = files(tls);
        let make = |files: &Files| {
            let named = files.read()?;
            let (revoked, expires) = (named.revoked().clone(), named.expires());
            let server = open_server(files, named, &[b"http/1.1"])?;
            let acceptor = TlsAcceptor::from(Arc::new(server));
            Ok::<_, FileError>(Side { acceptor, revoked, expires })
        };
        let paths = files.paths().into_iter().map(ToOwned::to_owned).collect();
        Ok(AdminTls(Reread::new(paths, move || make(&files))?))
    }

    /// Polls the files and reloads them if they changed; with `now`, in any case.
    pub(crate) fn look(&self, now: bool) -> Look {
        if now { self.0.reload() } else { self.0.look() }
    }

    /// When the certificate in force expires, in seconds since 1970.
    pub(crate) fn expires(&self) -> u64 {
        self.0.now().expires
    }

    /// Performs the handshake. A client certificate must be the fleet's.
    pub(crate) async fn meet(&self, stream: TcpStream, patience: Duration) -> Option<Met> {
        let acceptor = self.0.now().acceptor.clone();
        let refused = |error: &dyn std::fmt::Display| {
            tracing::debug!(%error, "refused a connection to the admin port");
        };
        let shaken = tokio::time::timeout(patience, acceptor.accept(stream)).await.ok()?;
        let stream = shaken.map_err(|error| refused(&error)).ok()?;
        let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let party = shown.map(|shown| party(Some(shown))).transpose();
        let party = party.map_err(|error| refused(&error)).ok()?;
        let certificate = shown.map(|shown| shown.clone().into_owned());
        Some(Met { stream, party, certificate })
    }

    /// Completes when the client's certificate is revoked.
    pub(crate) fn revoked(&self, met: &Met) -> impl Future<Output = ()> + Send + 'static {
        let certificate = met.certificate.clone();
        self.0.until(move |side| certificate.as_ref().is_some_and(|c| side.revoked.has(c)))
    }
}
