//! TLS between peers: the trusted CAs, and this gateway's identity.
//!
//! Both sides show a certificate of the fleet's CA. The client also checks the server's name: it
//! expects the DNS name made of the peer's fleet, region and name. TLS's own check therefore
//! refuses every other gateway, whatever address it has.
//!
//! Without files, the gateways' common secret stands for the CA, and each gateway issues its own
//! certificate (`meridian_tls::OfSecret`).
//!
//! The files are reloaded while the gateway serves; its identity stays that of the start.

use std::sync::Arc;

use meridian_config::{self as config, Secret};
use meridian_protocol::peer::{Identity, label};
use meridian_tls::{
    Files, Look, Material, OfSecret, Reread, Revoked, client, client_of_region, identity,
    mutual_server,
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
    /// Reads the files, or makes certificates from the secret, and builds both sides of TLS.
    pub(crate) fn load(
        peers: &config::Peers,
        region: &str,
        name: Option<&str>,
    ) -> Result<Tls, TlsError> {
        if let Some(files) = files(peers) {
            return Tls::of_files(files, region);
        }
        let secret = peers.secret.as_ref().expect("without a secret there are files");
        Tls::of_secret(secret, region, peers.name.as_deref().or(name))
    }

    fn of_files(files: Files, region: &str) -> Result<Tls, TlsError> {
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

    /// A restart makes another certificate; nothing changes while the gateway runs.
    fn of_secret(secret: &Secret, region: &str, name: Option<&str>) -> Result<Tls, TlsError> {
        let name = name.map_or_else(host_name, |name| Ok(name.to_owned()))?;
        let identity = Identity::new(meridian_tls::FLEET, region, &name)?;
        let made = OfSecret::new(secret.expose(), &identity);
        let made = made.map_err(|error| TlsError::Secret(error.to_string()))?;
        let files = Files { section: "peers".into(), ..Files::default() };
        let own = identity.clone();
        let make = move || {
            let material = || made.material().map_err(|error| TlsError::Secret(error.to_string()));
            Both::new(&files, &own, material).map_err(|error| error.to_string())
        };
        let both = Reread::new(Vec::new(), make).map_err(TlsError::Secret)?;
        Ok(Tls { identity, both })
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
pub(crate) fn files(peers: &config::Peers) -> Option<Files> {
    let config::MutualTls { ca, crl, certificate, key } = peers.files()?;
    Some(Files { section: "peers".into(), ca: Some(ca), crl, certificate, key })
}

fn both(files: &Files) -> Result<(Identity, Both), TlsError> {
    let named = files.read()?;
    let identity =
        identity(named.certificate()).map_err(|error| files.error("certificate", error))?;
    let both = Both::new(files, &identity, || Ok(files.read()?))?;
    Ok((identity, both))
}

impl Both {
    /// `material` makes one for each side.
    fn new(
        files: &Files,
        own: &Identity,
        material: impl Fn() -> Result<Material, TlsError>,
    ) -> Result<Both, TlsError> {
        let named = material()?;
        let (revoked, expires) = (named.revoked().clone(), named.expires());
        let server = mutual_server(files, named, PROTOCOLS)?;
        let client = client(files, material()?, PROTOCOLS)?;
        let finder = client_of_region(files, material()?, PROTOCOLS, own)?;
        Ok(Both {
            acceptor: TlsAcceptor::from(Arc::new(server)),
            connector: TlsConnector::from(Arc::new(client)),
            finder: TlsConnector::from(Arc::new(finder)),
            revoked,
            expires,
        })
    }
}

/// The name of this host as the name of a gateway: what is before its first dot, in lower case.
fn host_name() -> Result<String, TlsError> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim().to_lowercase();
    let name = host.split('.').next().unwrap_or_default().to_owned();
    label("name", &name).map_err(|_| TlsError::Host(host)).map(|()| name)
}
