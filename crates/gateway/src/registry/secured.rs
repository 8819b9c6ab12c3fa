//! Asking the control plane over TLS, as the gateway that the own certificate names.

use std::io;
use std::sync::Arc;

use meridian_tls::{FileError, Files, Look, Reread, Revoked, client, party};
use meridian_wire::config::MutualTls;
use meridian_wire::peer::control_name;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// This gateway's side of a connection to the control plane.
pub(super) struct Secured(Reread<Side>);

struct Side {
    connector: TlsConnector,
    /// The name that the fleet's control planes answer to.
    name: ServerName<'static>,
    revoked: Revoked,
}

impl Secured {
    pub(super) fn load(tls: &MutualTls) -> Result<Secured, FileError> {
        let files = files(tls);
        let paths = files.paths().into_iter().map(ToOwned::to_owned).collect();
        Ok(Secured(Reread::new(paths, move || side(&files))?))
    }

    /// Connects; the future that comes along completes once the control plane's certificate is
    /// revoked.
    pub(super) async fn connect(
        &self,
        stream: TcpStream,
    ) -> io::Result<(TlsStream<TcpStream>, impl Future<Output = ()> + Send + 'static)> {
        let side = self.0.now();
        let stream = side.connector.connect(side.name.clone(), stream).await?;
        let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let shown = shown.map(|certificate| certificate.clone().into_owned());
        let revoked = self.0.until(move |side| shown.as_ref().is_some_and(|s| side.revoked.has(s)));
        Ok((stream, revoked))
    }

    pub(super) fn look(&self, now: bool) -> Look {
        if now { self.0.reload() } else { self.0.look() }
    }
}

/// The files that `control.tls` names.
pub(crate) fn files(tls: &MutualTls) -> Files {
    Files {
        section: "control.tls",
        ca: Some(tls.ca.clone()),
        crl: tls.crl.clone(),
        certificate: tls.certificate.clone(),
        key: tls.key.clone(),
    }
}

fn side(files: &Files) -> Result<Side, FileError> {
    let named = files.read()?;
    let own = party(named.certificate()).map_err(|error| files.error("certificate", error))?;
    let name = ServerName::try_from(control_name(own.fleet())).expect("labels are a DNS name");
    let revoked = named.revoked().clone();
    let connector = TlsConnector::from(Arc::new(client(files, named, &[b"http/1.1"])?));
    Ok(Side { connector, name, revoked })
}
