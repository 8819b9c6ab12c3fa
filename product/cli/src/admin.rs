//! One request to a gateway's admin port.

use std::path::PathBuf;

use anyhow::{Context, bail};
use meridian_tls::Files;

use crate::http::{self, Secured};

/// Address of the gateway, and the credentials for it.
#[derive(clap::Args)]
pub(crate) struct Admin {
    /// Admin address of the gateway
    #[arg(long, default_value = "http://127.0.0.1:8081", value_name = "URL")]
    admin: String,
    /// Token of the admin port, if it needs one
    #[arg(long, env = "MERIDIAN_ADMIN_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// CA certificates that verify the port, for an https address
    #[arg(long, env = "MERIDIAN_ADMIN_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Client certificate, if the port needs one
    #[arg(long, env = "MERIDIAN_ADMIN_CERTIFICATE", value_name = "FILE", requires_all = ["ca", "key"])]
    certificate: Option<PathBuf>,
    /// Key of the client certificate
    #[arg(long, env = "MERIDIAN_ADMIN_KEY", value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
}

impl Admin {
    /// Returns the body of `GET path`. A refusal becomes an error with the gateway's message.
    pub(crate) fn get(&self, path: &str) -> anyhow::Result<String> {
        let url = format!("{}{path}", self.admin.trim_end_matches('/'));
        let files = self.ca.as_ref().zip(self.certificate.clone()).zip(self.key.clone());
        let own = files.map(|((ca, certificate), key)| Files {
            section: "-".into(),
            ca: Some(ca.clone()),
            crl: None,
            certificate,
            key,
        });
        let secured = match (url.starts_with("https://"), &self.ca) {
            (false, _) => None,
            (true, Some(ca)) => Some(Secured::Gateway { ca, own: own.as_ref() }),
            (true, None) => {
                bail!("{url} is https; name the CA of its certificate with --ca")
            }
        };
        let asked = http::ask("GET", &url, self.token.as_deref(), secured, String::new());
        let remedy = "start `meridian gateway`, or name its admin address with --admin";
        let (status, body) =
            asked.with_context(|| format!("no gateway answers at {url}; {remedy}"))?;
        match status {
            200 => Ok(body),
            _ => bail!("{}", http::message(&body)),
        }
    }
}
