//! Ports that any client may connect to, and clients of servers outside the fleet. A client that
//! shows a certificate of the fleet is identified by it.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, ServerConfig};

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

/// The client side of a port outside the fleet, which checks the server's name against the address
/// and shows no certificate. `section` is the section of the configuration that names the file, for
/// error messages.
///
/// # Errors
/// If the CA file can't be used.
pub fn open_client(
    section: &str,
    ca: &Path,
    protocols: &[&[u8]],
) -> Result<ClientConfig, FileError> {
    let error = |problem: String| FileError {
        section: section.to_owned().into(),
        field: "ca",
        path: ca.to_owned(),
        problem,
        remedy: "use the certificate of the authority that issued the server's",
    };
    let mut roots = RootCertStore::empty();
    for root in crate::files::certificates(ca).map_err(error)? {
        roots.add(root).map_err(|problem| error(problem.to_string()))?;
    }
    let trusting = trusting(roots).map_err(|problem| error(problem.to_string()))?;
    Ok(offering(trusting.with_no_client_auth(), protocols))
}

/// The same, with a certificate for servers that ask for one. Without a CA in `files` it trusts the
/// authorities that this machine trusts.
///
/// # Errors
/// If the certificate and the key don't match, or the machine trusts no authorities.
pub fn open_client_as(
    files: &Files,
    mut material: Material,
    protocols: &[&[u8]],
) -> Result<ClientConfig, FileError> {
    let in_key = |error: rustls::Error| files.error("key", error);
    let roots = match material.roots.take() {
        Some(roots) => roots,
        None => machine_roots().map_err(|problem| files.error("ca", problem))?,
    };
    let client = trusting(roots).map_err(in_key)?;
    let client = client.with_client_auth_cert(material.chain, material.key).map_err(in_key)?;
    Ok(offering(client, protocols))
}

/// The client side towards servers whose certificates are from an authority that this machine trusts.
///
/// # Errors
/// If the machine trusts none, with the remedy.
pub fn of_machine(protocols: &[&[u8]]) -> Result<ClientConfig, String> {
    let client = trusting(machine_roots()?).map_err(|problem| problem.to_string())?;
    Ok(offering(client.with_no_client_auth(), protocols))
}

fn machine_roots() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs().certs;
    let (added, _) = roots.add_parsable_certificates(found);
    assert_eq!(roots.len(), added, "each certificate that was added is trusted");
    if added > 0 {
        return Ok(roots);
    }
    Err("this machine trusts no certificate authorities; install ca-certificates, or set `ca` in `credentials`".to_owned())
}

type Trusting = ConfigBuilder<ClientConfig, WantsClientCert>;

fn trusting(roots: RootCertStore) -> Result<Trusting, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(provider());
    Ok(builder.with_safe_default_protocol_versions()?.with_root_certificates(roots))
}

fn offering(mut client: ClientConfig, protocols: &[&[u8]]) -> ClientConfig {
    client.alpn_protocols = owned(protocols);
    client
}
