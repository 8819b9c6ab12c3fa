//! An operator of a fleet: sends requests to its control planes, as the commands do.

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Hyper;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use meridian_protocol::peer::control_name;
use meridian_tls::Files;
use rustls::pki_types::ServerName;

use crate::{Answer, Error, Result};

/// Sends requests with the operator's certificate.
#[derive(Debug, Clone)]
pub struct Operator {
    hyper: Hyper<HttpsConnector<HttpConnector>, Full<Bytes>>,
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
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(meridian_tls::client(&files, named, &[])?)
            .https_only()
            .with_server_name_resolver(FixedServerNameResolver::new(name))
            .enable_http1()
            .wrap_connector(tcp);
        // A kept connection to a killed process would make a later request fail.
        let hyper = Hyper::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
        Ok(Operator { hyper })
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
        let mut request = Request::builder().method(method).uri(url);
        if !body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(Full::new(body.into())).map_err(|error| failed(url, error))?;
        let asked = async {
            let answer = self.hyper.request(request).await.map_err(|error| failed(url, error))?;
            let (head, body) = answer.into_parts();
            let body = body.collect().await.map_err(|error| failed(url, error))?.to_bytes();
            Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
        };
        let late = |_| failed(url, format!("no answer within {limit:?}"));
        tokio::time::timeout(limit, asked).await.map_err(late)?
    }
}

fn failed(url: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Http { method: "asking", url: url.to_owned(), source: source.into() }
}
