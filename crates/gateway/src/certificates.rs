//! The certificate that clients are shown, and the look at every file that counts anew.

use std::sync::Arc;

use meridian_tls::{FileError, Files, LOOK, Look, Reread, Unread, server};
use meridian_wire::config;
use tokio_rustls::TlsAcceptor;

use crate::shared::Shared;

/// What clients may speak.
const PROTOCOLS: &[&[u8]] = &[b"h2", b"http/1.1"];

/// TLS on the clients' port.
pub(crate) struct ClientTls(Reread<TlsAcceptor>);

impl ClientTls {
    pub(crate) fn load(tls: &config::Tls) -> Result<ClientTls, FileError> {
        let files = Files {
            section: "tls",
            ca: None,
            certificate: tls.certificate.clone(),
            key: tls.key.clone(),
        };
        let make = |files: &Files| {
            let server = server(files, files.read()?, PROTOCOLS)?;
            Ok::<_, FileError>(TlsAcceptor::from(Arc::new(server)))
        };
        let first = make(&files)?;
        let paths = files.paths().into_iter().map(ToOwned::to_owned).collect();
        let again = move || make(&files).map_err(|error| Unread(error.to_string()));
        Ok(ClientTls(Reread::new(paths, first, again)))
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.0.now().as_ref().clone()
    }
}

/// Looks at the files of all certificates and at the configuration's now and then, for ever. New
/// connections and requests get what is new; those that are open go on.
pub(crate) async fn keep(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(LOOK).await;
        shared.access.look(&shared);
        if let Some(tls) = &shared.tls {
            tell("clients", &tls.0.look());
        }
        if let Some(peers) = &shared.peers {
            tell("peers", &peers.look());
        }
        if let Some(registry) = &shared.registry {
            tell("control", &registry.look());
        }
    }
}

fn tell(port: &str, look: &Look) {
    match look {
        Look::Same => {}
        Look::New => tracing::info!(port, "certificates were exchanged"),
        Look::Bad(problem) => {
            tracing::error!(port, %problem, "new certificates can't be used; the old ones go on");
        }
    }
}
