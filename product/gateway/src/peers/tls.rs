//! TLS between peers: the trusted CAs, and this gateway's identity.
//!
//! Both sides show a certificate of the fleet's CA. The client also checks the server's name: it
//! expects the DNS name made of the peer's fleet, region and name. TLS's own check therefore
//! refuses every other gateway, whatever address it has.
//!
//! The files are reloaded while the gateway serves; its identity stays that of the start.

use std::sync::Arc;

use meridian_config as config;
use meridian_protocol::peer::Identity;
use meridian_tls::{
    Files, Look, Reread, Revoked, client, client_of_region, identity, mutual_server,
};
use rustls::pki_types::CertificateDer;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::error::TlsError;

/// Peers use HTTP/2 only.
const PROTOCOLS: &[&[u8]] = &[b"h2"];

pub(crate) struct Tls {
    pub(crate) identity: Identity,
    both: Reread<Both>,
}

/// The client and the server side of TLS.
struct Both {
    acceptor: TlsAcceptor,
    connector: TlsConnector,
    /// For any gateway of this region.
    finder: TlsConnector,
    revoked: Revoked,
    expires: u64,
}

impl Tls {
    /// Reads the files and builds both sides of TLS.
    pub(crate) fn load(peers: &config::Peers, region: &str) -> Result<Tls, TlsError> {
        let files = files(peers);
        let (identity, _) = both(&files)?;
        if identity.region() != region {
            let certified = identity.region().to_owned();
            return Err(TlsError::Region { certified, region: region.to_owned() });
        }
        let paths = files.paths().into_iter().map(ToOwned::to_owned).collect();
        let own = identity.clone();
        let make = move || {
            let (certified, both) = both(&files)?;
            if certified == own {
                return Ok(both);
            }
            let (certified, own) = (certified.to_string(), own.to_string());
            Err(TlsError::Exchanged { certified, own })
        };
        Ok(Tls { identity, both: Reread::new(paths, make)? })
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        self.both.now().acceptor.clone()
    }

    pub(super) fn connector(&self) -> TlsConnector {
        self.both.now().connector.clone()
    }

    /// The same for any gateway of this region.
    pub(super) fn finder(&self) -> TlsConnector {
        self.both.now().finder.clone()
    }

    /// When the certificate in force expires, in seconds since 1970.
    pub(super) fn expires(&self) -> u64 {
        self.both.now().expires
    }

    /// Completes when a certificate is revoked.
    pub(super) fn revoked(
        &self,
        certificate: CertificateDer<'static>,
    ) -> impl Future<Output = ()> + Send + 'static {
        self.both.until(move |both| both.revoked.has(&certificate))
    }

    /// Polls the files and reloads them if they changed; with `now`, in any case.
    pub(crate) fn look(&self, now: bool) -> Look {
        if now { self.both.reload() } else { self.both.look() }
    }
}

/// The files that `peers` names.
pub(crate) fn files(peers: &config::Peers) -> Files {
    Files {
        section: "peers".into(),
        ca: Some(peers.ca.clone()),
        crl: peers.crl.clone(),
        certificate: peers.certificate.clone(),
        key: peers.key.clone(),
    }
}

fn both(files: &Files) -> Result<(Identity, Both), TlsError> {
    let named = files.read()?;
    let identity =
        identity(named.certificate()).map_err(|error| files.error("certificate", error))?;
    let (revoked, expires) = (named.revoked().clone(), named.expires());
    let server = mutual_server(files, named, PROTOCOLS)?;
    let client = client(files, files.read()?, PROTOCOLS)?;
    let finder = client_of_region(files, files.read()?, PROTOCOLS, &identity)?;
    let (acceptor, connector) =
        (TlsAcceptor::from(Arc::new(server)), TlsConnector::from(Arc::new(client)));
    let finder = TlsConnector::from(Arc::new(finder));
    Ok((identity, Both { acceptor, connector, finder, revoked, expires }))
}
