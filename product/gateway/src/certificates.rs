//! The TLS certificate for clients.

use std::sync::Arc;

use meridian_config as config;
use meridian_tls::{FileError, Files, Look, Reread, server};
use tokio_rustls::TlsAcceptor;

/// Protocols offered to clients.
const PROTOCOLS: &[&[u8]] = &[b"h2", b"http/1.1"];

/// The files that `tls` names.
pub(crate) fn files(tls: &config::Tls) -> Files {
    Files {
        section: "tls".into(),
        ca: None,
        crl: None,
        certificate: tls.certificate.clone(),
        key: tls.key.clone(),
    }
}

/// TLS on the client port.
pub(crate) struct ClientTls(Reread<Side>);

struct Side {
    acceptor: TlsAcceptor,
    expires: u64,
}

impl ClientTls {
    pub(crate) fn load(tls: &config::Tls) -> Result<ClientTls, FileError> {
        let files = files(tls);
        let make = |files: &Files| {
            let material = files.read()?;
            let expires = material.expires();
            let server = server(files, material, PROTOCOLS)?;
            Ok::<_, FileError>(Side { acceptor: TlsAcceptor::from(Arc::new(server)), expires })
        };
        let paths = files.paths().into_iter().map(ToOwned::to_owned).collect();
        Ok(ClientTls(Reread::new(paths, move || make(&files))?))
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.0.now().acceptor.clone()
    }

    /// When the certificate in force expires, in seconds since 1970.
    pub(crate) fn expires(&self) -> u64 {
        self.0.now().expires
    }

    /// Polls the files and reloads them if they changed; with `now`, in any case.
    pub(crate) fn look(&self, now: bool) -> Look {
        if now { self.0.reload() } else { self.0.look() }
    }
}
