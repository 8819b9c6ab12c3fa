//! An operator of a fleet: sends requests to its control planes, as the commands do.

use std::path::PathBuf;
use std::time::Duration;

use http::Method;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use meridian_protocol::peer::control_name;
use meridian_tls::Files;
use rustls::pki_types::ServerName;

use crate::client::{failed, tcp};
use crate::{Answer, Client, Result};

/// Sends requests with the operator's certificate.
#[derive(Debug, Clone)]
pub struct Operator {
    client: Client,
}

impl Operator {
    /// With the files of the CA, the certificate and its key.
    ///
    /// # Errors
    /// If a file is unusable.
    pub fn new([ca, certificate, key]: [PathBuf; 3]) -> Result<Operator> {
        let files = Files { section: "-".into(), ca: Some(ca), crl: None, certificate, key };
        let named = files.read()?;
        let own = meridian_tls::party(named.certificate());
        let own = own.map_err(|error| files.error("certificate", error))?;
        let name = ServerName::try_from(control_name(own.fleet()));
        let name = name.map_err(|error| files.error("certificate", error))?;
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(meridian_tls::client(&files, named, &[])?)
            .https_only()
            .with_server_name_resolver(FixedServerNameResolver::new(name))
            .enable_http1()
            .wrap_connector(tcp());
        Ok(Operator { client: Client::over(connector, 0) })
    }

    /// Sends a request; returns the complete answer, whatever its status.
    ///
    /// # Errors
    /// If there is no answer within `limit`. A change may have been made.
    pub async fn ask(
        &self,
        method: Method,
        url: &str,
        body: String,
        limit: Duration,
    ) -> Result<Answer> {
        let asked = async { self.client.send(method, url, body.into(), &[]).await?.whole().await };
        let late = |_| failed(url, format!("no answer within {limit:?}"));
        tokio::time::timeout(limit, asked).await.map_err(late)?
    }
}
