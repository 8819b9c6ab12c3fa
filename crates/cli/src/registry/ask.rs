//! One request to a control plane.

use std::path::PathBuf;

use anyhow::{Context, bail};
use meridian_tls::Files;
use meridian_wire::intervals::Intervals;
use meridian_wire::registry::Snapshot;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::http::{self, Secured};

/// Address of the control plane.
#[derive(clap::Args)]
pub(crate) struct Control {
    /// Admin address of the control plane
    #[arg(
        long,
        global = true,
        env = "MERIDIAN_CONTROL",
        default_value = "http://127.0.0.1:8090",
        value_name = "URL"
    )]
    control: String,
    /// Token of the control plane, if it has one
    #[arg(long, global = true, env = "MERIDIAN_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Certificates of the fleet's CA, for an https address
    #[arg(long, global = true, env = "MERIDIAN_CA", value_name = "FILE", requires_all = ["certificate", "key"])]
    ca: Option<PathBuf>,
    /// Client certificate
    #[arg(long, global = true, env = "MERIDIAN_CERTIFICATE", value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Key of the client certificate
    #[arg(long, global = true, env = "MERIDIAN_KEY", value_name = "FILE")]
    key: Option<PathBuf>,
}

impl Control {
    /// The whole registry.
    pub(super) fn snapshot(&self) -> anyhow::Result<Snapshot> {
        self.get("/admin/registry")
    }

    /// When gateways and replicas were up and down.
    pub(super) fn intervals(&self) -> anyhow::Result<Intervals> {
        self.get("/admin/intervals")
    }

    /// The answer to `GET path`, parsed.
    pub(super) fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<T> {
        self.parsed(path, &self.ask("GET", path, String::new())?)
    }

    /// The answer to a `POST` of JSON, parsed.
    pub(super) fn post<T: DeserializeOwned>(&self, path: &str, body: String) -> anyhow::Result<T> {
        self.parsed(path, &self.ask("POST", path, body)?)
    }

    fn parsed<T: DeserializeOwned>(&self, path: &str, body: &str) -> anyhow::Result<T> {
        let what = || format!("the answer of {} has an unknown form", self.url(path));
        serde_json::from_str(body)
            .with_context(|| format!("{}; is it a control plane of this version?", what()))
    }

    /// Makes a change without a body.
    pub(super) fn change(&self, method: &str, path: &str) -> anyhow::Result<()> {
        self.ask(method, path, String::new()).map(drop)
    }

    /// Makes a change with `value` as its body.
    pub(super) fn put(&self, path: &str, value: &impl Serialize) -> anyhow::Result<()> {
        self.ask("PUT", path, serde_json::to_string(value)?).map(drop)
    }

    /// The certificates for an https address; `None` for http.
    fn tls(&self, url: &str) -> anyhow::Result<Option<Files>> {
        if !url.starts_with("https://") {
            return Ok(None);
        }
        let (Some(ca), Some(certificate), Some(key)) = (&self.ca, &self.certificate, &self.key)
        else {
            bail!("{url} is asked with certificates; name them with --ca, --certificate and --key");
        };
        let (certificate, key) = (certificate.clone(), key.clone());
        Ok(Some(Files { section: "-".into(), ca: Some(ca.clone()), crl: None, certificate, key }))
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.control.trim_end_matches('/'))
    }

    fn ask(&self, method: &str, path: &str, body: String) -> anyhow::Result<String> {
        let url = self.url(path);
        let tls = self.tls(&url)?;
        let secured = tls.as_ref().map(Secured::Control);
        let asked = http::ask(method, &url, self.token.as_deref(), secured, body);
        let (status, body) = asked.with_context(|| {
            let remedy = "start `meridian control`, or name another with --control";
            format!("no control plane answers at {url}; {remedy}")
        })?;
        match status {
            200..=299 => Ok(body),
            _ => bail!("{}", http::message(&body)),
        }
    }
}
