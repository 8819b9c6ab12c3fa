//! TLS between peers: whom this gateway trusts, and how it says who it is.
//!
//! Both sides show a certificate of the fleet's authority. The one who dials also holds the other
//! to a name: it expects the DNS name that is made of the peer's fleet, region and name, so TLS's
//! own check refuses every other gateway, whatever address it was reached at.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use meridian_wire::config;
use meridian_wire::peer::{Identity, IdentityError};
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use x509_parser::extensions::GeneralName;

/// What keeps a gateway from meeting peers.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file that cannot be used.
    #[error("peers.{field}: {}: {problem}; make it with `meridian certs`", path.display())]
    File {
        /// The configuration's field.
        field: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The certificate is another region's.
    #[error(
        "peers.certificate: is of region `{certified}`, and region is `{region}`; give the gateway a certificate of its own region"
    )]
    Region {
        /// By the certificate.
        certified: String,
        /// By the configuration.
        region: String,
    },
    /// A peer that is this gateway.
    #[error("peers.gateways: {0} is this gateway itself; remove it")]
    Itself(Identity),
    /// A name that is none.
    #[error("peers.gateways: {0}")]
    Name(#[from] IdentityError),
}

/// Why a certificate names no gateway.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NameError {
    #[error("no certificate was shown")]
    None,
    #[error("the certificate cannot be read")]
    Unreadable,
    #[error("the certificate names {0} gateways; `meridian certs issue` makes one that names one")]
    Names(usize),
}

pub(crate) struct Tls {
    pub(crate) identity: Identity,
    pub(super) acceptor: TlsAcceptor,
    pub(super) connector: TlsConnector,
}

impl Tls {
    /// Reads the files and makes both sides of TLS from them.
    pub(crate) fn load(peers: &config::Peers, region: &str) -> Result<Tls, TlsError> {
        let problem = |field, path: &Path, problem: String| TlsError::File {
            field,
            path: path.to_owned(),
            problem,
        };
        let in_ca = |p: String| problem("ca", &peers.ca, p);
        let in_certificate = |p: String| problem("certificate", &peers.certificate, p);
        let in_key = |p: String| problem("key", &peers.key, p);
        let mut roots = RootCertStore::empty();
        for root in certificates(&peers.ca).map_err(in_ca)? {
            roots.add(root).map_err(|error| in_ca(error.to_string()))?;
        }
        let chain = certificates(&peers.certificate).map_err(in_certificate)?;
        let identity =
            identity(chain.first()).map_err(|error| in_certificate(error.to_string()))?;
        if identity.region() != region {
            let certified = identity.region().to_owned();
            return Err(TlsError::Region { certified, region: region.to_owned() });
        }
        let key = PrivateKeyDer::from_pem_file(&peers.key);
        let key = key.map_err(|error| in_key(error.to_string()))?;
        let both = configs(roots, chain, key).map_err(|error| in_key(error.to_string()))?;
        let (server, client) = both;
        Ok(Tls {
            identity,
            acceptor: TlsAcceptor::from(Arc::new(server)),
            connector: TlsConnector::from(Arc::new(client)),
        })
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())?;
    let all: Vec<_> = all.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    if all.is_empty() { Err("holds no certificate".to_owned()) } else { Ok(all) }
}

type Configs = (ServerConfig, ClientConfig);

fn configs(
    roots: RootCertStore,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Configs, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = Arc::new(roots);
    let general =
        |error: rustls::server::VerifierBuilderError| rustls::Error::General(error.to_string());
    let clients = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
    let mut server = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(clients.build().map_err(general)?)
        .with_single_cert(chain.clone(), key.clone_key())?;
    let servers = WebPkiServerVerifier::builder_with_provider(roots, provider.clone());
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_webpki_verifier(servers.build().map_err(general)?)
        .with_client_auth_cert(chain, key)?;
    server.alpn_protocols = vec![b"h2".to_vec()];
    client.alpn_protocols = vec![b"h2".to_vec()];
    Ok((server, client))
}

/// The gateway that a certificate names: it names exactly one.
pub(super) fn identity(certificate: Option<&CertificateDer<'_>>) -> Result<Identity, NameError> {
    let der = certificate.ok_or(NameError::None)?;
    let unreadable = |_| NameError::Unreadable;
    let (_, certificate) =
        x509_parser::parse_x509_certificate(der).map_err(|_| NameError::Unreadable)?;
    let names = certificate.subject_alternative_name().map_err(unreadable)?;
    let names = names.iter().flat_map(|names| &names.value.general_names);
    let mut found: Vec<Identity> = names
        .filter_map(|name| match name {
            GeneralName::URI(uri) => uri.parse().ok(),
            _ => None,
        })
        .collect();
    match found.pop() {
        Some(one) if found.is_empty() => Ok(one),
        Some(_) => Err(NameError::Names(found.len() + 1)),
        None => Err(NameError::Names(0)),
    }
}
