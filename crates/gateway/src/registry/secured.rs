//! Asking the control plane over TLS, as the gateway that the own certificate names.

use std::io;
use std::sync::Arc;

use meridian_tls::{FileError, Files, Look, Reread, Unread, client, party};
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
}

impl Secured {
    pub(super) fn load(tls: &MutualTls) -> Result<Secured, FileError> {
        let files = Files {
            section: "control.tls",
            ca: Some(tls.ca.clone()),
            certificate: tls.certificate.clone(),
            key: tls.key.clone(),
        };
        let first = side(&files)?;
        let paths = files.paths().into_iter().map(ToOwned::to_owned).collect();
        let again = move || side(&files).map_err(|error| Unread(error.to_string()));
        Ok(Secured(Reread::new(paths, first, again)))
    }

    pub(super) async fn connect(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let side = self.0.now();
        side.connector.connect(side.name.clone(), stream).await
    }

    pub(super) fn look(&self, now: bool) -> Look {
        if now { self.0.reload() } else { self.0.look() }
    }
}

fn side(files: &Files) -> Result<Side, FileError> {
    let named = files.read()?;
    let own = party(named.certificate()).map_err(|error| files.error("certificate", error))?;
    let name = ServerName::try_from(control_name(own.fleet())).expect("labels are a DNS name");
    let connector = TlsConnector::from(Arc::new(client(files, named, &[b"http/1.1"])?));
    Ok(Side { connector, name })
}
