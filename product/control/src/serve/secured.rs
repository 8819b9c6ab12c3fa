//! The admin port over TLS: a certificate of the fleet identifies the client and determines what it
//! may change. An operator may change everything, a gateway only its own lease. Every client may
//! read.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use meridian_config::MutualTls;
use meridian_protocol::peer::Party;
use meridian_tls::{FileError, Files, Look, Reread, Revoked, mutual_server, party};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::server::TlsStream;

use super::answer::Refusal;

/// The current certificates.
pub(super) struct Secured(Reread<Side>);

struct Side {
    acceptor: TlsAcceptor,
    revoked: Revoked,
}

/// A connection with an identified client.
pub(super) struct Met {
    pub(super) stream: TlsStream<TcpStream>,
    pub(super) party: Party,
    certificate: CertificateDer<'static>,
}

impl Secured {
    pub(super) fn load(tls: &MutualTls) -> Result<Secured, FileError> {
        let files = files(tls);
        let make = |files: &Files| {
            let named = files.read()?;
            if !matches!(party(named.certificate()), Ok(Party::Control { .. })) {
                let problem = "is not a control plane's, so every gateway would refuse it";
                return Err(files.error("certificate", problem));
            }
            let revoked = named.revoked().clone();
            let server = mutual_server(files, named, &[b"http/1.1"])?;
            Ok(Side { acceptor: TlsAcceptor::from(Arc::new(server)), revoked })
        };
        let paths = files.paths().into_iter().map(ToOwned::to_owned).collect();
        Ok(Secured(Reread::new(paths, move || make(&files))?))
    }

    /// Polls the files and reloads them if they changed; with `now`, in any case.
    pub(super) fn look(&self, now: bool) -> Look {
        if now { self.0.reload() } else { self.0.look() }
    }

    /// Performs the handshake with a client; none if it is not of the fleet, or takes too long.
    pub(super) async fn meet(&self, stream: TcpStream, patience: Duration) -> Option<Met> {
        let address = stream.peer_addr().map(|a| a.to_string()).unwrap_or_default();
        let refused = |error: &dyn std::fmt::Display| {
            tracing::warn!(%address, %error, "refused a connection without a valid certificate at the admin port");
        };
        let acceptor = self.0.now().acceptor.clone();
        let shaken = tokio::time::timeout(patience, acceptor.accept(stream)).await.ok()?;
        let stream = shaken.map_err(|error| refused(&error)).ok()?;
        let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        let party = party(shown).map_err(|error| refused(&error)).ok()?;
        let certificate = shown?.clone().into_owned();
        Some(Met { stream, party, certificate })
    }

    /// Completes when the client's certificate is revoked.
    pub(super) fn revoked(&self, met: &Met) -> impl Future<Output = ()> + Send + 'static {
        let certificate = met.certificate.clone();
        self.0.until(move |side| side.revoked.has(&certificate))
    }
}

/// The files that `tls` names.
pub(super) fn files(tls: &MutualTls) -> Files {
    Files {
        section: "tls".into(),
        ca: Some(tls.ca.clone()),
        crl: tls.crl.clone(),
        certificate: tls.certificate.clone(),
        key: tls.key.clone(),
    }
}

/// Checks whether the client may change what `path` names. Without certificates only the token
/// matters.
pub(super) fn may_change(party: Option<&Party>, path: &[&str]) -> Result<(), Refusal> {
    match (party, path) {
        (None | Some(Party::Operator { .. }), _) => Ok(()),
        (Some(Party::Gateway(identity)), ["admin", "gateways", name])
            if *name == identity.gateway() =>
        {
            Ok(())
        }
        (Some(party), _) => {
            let message = format!(
                "{party} may not change this: a gateway may change its own lease only; use a certificate from `meridian certs issue --operator`"
            );
            Err(Refusal::new(StatusCode::FORBIDDEN, "not_yours", message))
        }
    }
}

/// Checks that a gateway announces the region in its certificate.
pub(super) fn may_serve(party: Option<&Party>, region: &str) -> Result<(), Refusal> {
    match party {
        Some(Party::Gateway(identity)) if identity.region() != region => {
            let own = identity.region();
            let message = format!(
                "gateway.region: is {region}, and the certificate is for region {own}; use a certificate for the region that the gateway serves"
            );
            Err(Refusal::new(StatusCode::FORBIDDEN, "not_yours", message))
        }
        _ => Ok(()),
    }
}
