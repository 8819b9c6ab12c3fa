//! TLS configurations of the server and the client side.
//!
//! Connections within the fleet use TLS 1.3 only. Clients may use 1.2: some libraries still do.

use std::sync::Arc;

use meridian_protocol::peer::Identity;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::files::{FileError, Files, Material};
use crate::of_region::OfRegion;

type Protocols<'a> = &'a [&'a [u8]];

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

pub(crate) fn owned(protocols: Protocols<'_>) -> Vec<Vec<u8>> {
    protocols.iter().map(|name| name.to_vec()).collect()
}

fn roots(files: &Files, material: &mut Material) -> Result<Arc<RootCertStore>, FileError> {
    let roots = material.roots.take();
    roots.map(Arc::new).ok_or_else(|| files.error("ca", "is missing; use the fleet's ca.crt"))
}

/// An error about the CAs or their revocation lists.
pub(crate) fn in_trust(files: &Files, error: &VerifierBuilderError) -> FileError {
    let field = match error {
        VerifierBuilderError::InvalidCrl(_) => "crl",
        _ => "ca",
    };
    files.error(field, error)
}

/// The server side, open to any client.
///
/// # Errors
/// If the certificate and the key don't match.
pub fn server(
    files: &Files,
    material: Material,
    protocols: Protocols<'_>,
) -> Result<ServerConfig, FileError> {
    let in_key = |error: rustls::Error| files.error("key", error);
    let mut server = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(in_key)?
        .with_no_client_auth()
        .with_single_cert(material.chain, material.key)
        .map_err(in_key)?;
    server.alpn_protocols = owned(protocols);
    Ok(server)
}

/// The server side of mutual TLS: clients must show a certificate of the fleet.
///
/// # Errors
/// If no CA is configured, or the certificate and the key don't match.
pub fn mutual_server(
    files: &Files,
    mut material: Material,
    protocols: Protocols<'_>,
) -> Result<ServerConfig, FileError> {
    let in_key = |error: rustls::Error| files.error("key", error);
    let roots = roots(files, &mut material)?;
    let clients = WebPkiClientVerifier::builder_with_provider(roots, provider())
        .with_crls(std::mem::take(&mut material.lists.ders))
        .only_check_end_entity_revocation()
        .allow_unknown_revocation_status()
        .build();
    let mut server = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(in_key)?
        .with_client_cert_verifier(clients.map_err(|error| in_trust(files, &error))?)
        .with_single_cert(material.chain, material.key)
        .map_err(in_key)?;
    server.alpn_protocols = owned(protocols);
    Ok(server)
}

/// The client side of mutual TLS, which shows its own certificate.
///
/// # Errors
/// If no CA is configured, or the certificate and the key don't match.
pub fn client(
    files: &Files,
    material: Material,
    protocols: Protocols<'_>,
) -> Result<ClientConfig, FileError> {
    client_with(files, material, protocols, |servers| servers)
}

/// The same for a server that is any gateway of `own`'s region.
///
/// # Errors
/// If no CA is configured, or the certificate and the key don't match.
pub fn client_of_region(
    files: &Files,
    material: Material,
    protocols: Protocols<'_>,
    own: &Identity,
) -> Result<ClientConfig, FileError> {
    client_with(files, material, protocols, |inner| Arc::new(OfRegion { inner, own: own.clone() }))
}

fn client_with<V: ServerCertVerifier + 'static>(
    files: &Files,
    mut material: Material,
    protocols: Protocols<'_>,
    verifier: impl FnOnce(Arc<WebPkiServerVerifier>) -> Arc<V>,
) -> Result<ClientConfig, FileError> {
    let in_key = |error: rustls::Error| files.error("key", error);
    let roots = roots(files, &mut material)?;
    let servers = WebPkiServerVerifier::builder_with_provider(roots, provider())
        .with_crls(std::mem::take(&mut material.lists.ders))
        .only_check_end_entity_revocation()
        .allow_unknown_revocation_status()
        .build();
    let servers = servers.map_err(|error| in_trust(files, &error))?;
    let mut client = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(in_key)?
        .dangerous()
        .with_custom_certificate_verifier(verifier(servers))
        .with_client_auth_cert(material.chain, material.key)
        .map_err(in_key)?;
    client.alpn_protocols = owned(protocols);
    Ok(client)
}
