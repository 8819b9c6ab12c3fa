//! A port that any client may connect to. A client that shows a certificate of the fleet is
//! identified by it.

use std::path::Path;
use std::sync::Arc;

use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::files::{FileError, Files, Material};
use crate::sides::{in_trust, owned, provider, server};

/// The server side of such a port. If a CA is configured, it asks for client certificates of the
/// fleet but does not require one.
///
/// # Errors
/// If the certificate and the key don't match.
pub fn open_server(
    files: &Files,
    mut material: Material,
    protocols: &[&[u8]],
) -> Result<ServerConfig, FileError> {
    let Some(roots) = material.roots.take() else { return server(files, material, protocols) };
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
        .with_crls(std::mem::take(&mut material.lists.ders))
        .only_check_end_entity_revocation()
        .allow_unknown_revocation_status()
        .allow_unauthenticated()
        .build();
    let in_key = |error: rustls::Error| files.error("key", error);
    let mut server = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(in_key)?
        .with_client_cert_verifier(clients.map_err(|error| in_trust(files, &error))?)
        .with_single_cert(material.chain, material.key)
        .map_err(in_key)?;
    server.alpn_protocols = owned(protocols);
    Ok(server)
}

/// The client side of such a port. It checks the server's name against the address and shows no
/// certificate.
///
/// # Errors
/// If the CA file can't be used.
pub fn open_client(ca: &Path) -> Result<ClientConfig, FileError> {
    web_client(Some(ca))
}

/// The client side of an https site, which shows no certificate. It trusts the CA in the file, or
/// else the public ones.
///
/// # Errors
/// If the CA file can't be used.
pub fn web_client(ca: Option<&Path>) -> Result<ClientConfig, FileError> {
    let roots = match ca {
        Some(ca) => of_file(ca)?,
        None => RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() },
    };
    let client = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|problem| unusable(ca.unwrap_or(Path::new("-")), problem.to_string()))?
        .with_root_certificates(roots);
    Ok(client.with_no_client_auth())
}

fn of_file(ca: &Path) -> Result<RootCertStore, FileError> {
    let mut roots = RootCertStore::empty();
    for root in crate::files::certificates(ca).map_err(|problem| unusable(ca, problem))? {
        roots.add(root).map_err(|problem| unusable(ca, problem.to_string()))?;
    }
    Ok(roots)
}

fn unusable(ca: &Path, problem: String) -> FileError {
    FileError {
        section: "-",
        field: "ca",
        path: ca.to_owned(),
        problem,
        remedy: "use the ca.crt of the authority that issued the certificate of the port",
    }
}
