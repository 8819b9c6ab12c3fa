//! Connects to the control plane over TLS, as the gateway named in this process's certificate.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use meridian_config::MutualTls;
use meridian_protocol::peer::{Party, control_name};
use meridian_tls::{FileError, Files, Look, Reread, Revoked, client, party};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// This gateway's side of a connection to the control plane.
pub(super) struct Secured(Reread<Side>);

struct Side {
    connector: TlsConnector,
    /// The DNS name of the fleet's control planes.
    name: ServerName<'static>,
    revoked: Revoked,
}

impl Secured {
    /// For the gateway `name` of `region`. A start with another gateway's certificate is logged, as
    /// the control plane will refuse it; a reload of one is refused, and the previous one stays in
    /// force.
    pub(super) fn load(tls: &MutualTls, region: &str, name: &str) -> Result<Secured, FileError> {
        let files = files(tls);
        let paths = files.paths().into_iter().map(ToOwned::to_owned).collect();
        let (region, name) = (region.to_owned(), name.to_owned());
        let has_started = AtomicBool::new(false);
        let make = move || {
            let (side, own) = side(&files)?;
            let is_reload = has_started.swap(true, Ordering::Relaxed);
            match misnamed(&files, &own, &region, &name).filter(|_| is_reload) {
                Some(error) => Err(error),
                None => Ok(side),
            }
        };
        Ok(Secured(Reread::new(paths, make)?))
    }

    /// Connects; the returned future completes once the control plane's certificate is revoked.
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
        section: "control.tls".into(),
        ca: Some(tls.ca.clone()),
        crl: tls.crl.clone(),
        certificate: tls.certificate.clone(),
        key: tls.key.clone(),
    }
}

/// Why the control plane would refuse the gateway `name` of `region` with this certificate.
pub(crate) fn misnamed(files: &Files, own: &Party, region: &str, name: &str) -> Option<FileError> {
    match own {
        Party::Gateway(own) if own.region() == region && own.gateway() == name => None,
        own => {
            let problem = format!("is for {own}, and this gateway is {region}/{name}");
            Some(files.error("certificate", problem))
        }
    }
}

fn side(files: &Files) -> Result<(Side, Party), FileError> {
    let named = files.read()?;
    let own = party(named.certificate()).map_err(|error| files.error("certificate", error))?;
    let name = ServerName::try_from(control_name(own.fleet())).expect("labels are a DNS name");
    let revoked = named.revoked().clone();
    let connector = TlsConnector::from(Arc::new(client(files, named, &[b"http/1.1"])?));
    Ok((Side { connector, name, revoked }, own))
}

#[cfg(test)]
mod tests {
    use meridian_protocol::peer::Identity;

    use super::*;

    // Only this gateway's own certificate is accepted.
    #[test]
    fn another_gateways_certificate_is_reported() {
        let [ca, certificate, key] = ["ca.crt", "eu-1.crt", "eu-1.key"].map(Into::into);
        let files = files(&MutualTls { ca, crl: None, certificate, key });
        let of = |region: &str, name: &str| {
            let own = Identity::new("prod", region, name).expect("are labels");
            misnamed(&files, &Party::Gateway(own), "eu", "eu-1").map(|error| error.to_string())
        };
        assert_eq!(of("eu", "eu-1"), None);
        for (region, name) in [("eu", "eu-2"), ("us", "eu-1")] {
            let error = of(region, name).expect("is another gateway's");
            assert!(error.starts_with("control.tls.certificate: eu-1.crt: is for "), "{error}");
            assert!(error.contains("and this gateway is eu/eu-1"), "{error}");
        }
    }
}
