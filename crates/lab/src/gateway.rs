//! The gateway of a fleet: a config file, the process, and its admin API.

use std::fmt::Write;

use crate::{Error, Fleet, Process, Result};

/// The gateway to start.
#[derive(Debug, Clone)]
pub struct GatewaySpec {
    /// The policy's name.
    pub policy: String,
    /// When a replica may be given more; none leaves it to the policy.
    pub admission: Option<String>,
    /// The data address; port 0 means any.
    pub listen: String,
    /// The admin address; port 0 means any.
    pub admin: String,
    /// The replicas' addresses.
    pub replicas: Vec<String>,
    /// What kind of engine they are: `auto` detects it.
    pub engine: String,
}

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    /// The process.
    pub process: Process,
    /// Where clients go: `http://127.0.0.1:PORT`.
    pub url: String,
    /// Where the admin API is.
    pub admin: String,
}

impl Default for GatewaySpec {
    /// The default policy in front of nothing, on any ports.
    fn default() -> GatewaySpec {
        GatewaySpec {
            policy: "meridian".into(),
            admission: None,
            listen: "127.0.0.1:0".into(),
            admin: "127.0.0.1:0".into(),
            replicas: Vec::new(),
            engine: "auto".into(),
        }
    }
}

impl GatewaySpec {
    /// The config file, as a person would write it.
    fn yaml(&self) -> String {
        let mut yaml = format!(
            "version: 1\nregion: local\nlisten: {}\nadmin: {}\npolicy: {}\n",
            self.listen, self.admin, self.policy
        );
        if let Some(admission) = &self.admission {
            let _ = writeln!(yaml, "admission: {admission}");
        }
        yaml.push_str(if self.replicas.is_empty() { "replicas: []\n" } else { "replicas:\n" });
        for url in &self.replicas {
            let _ = write!(yaml, "  - url: {url}\n    engine: {}\n", self.engine);
        }
        yaml
    }
}

impl Fleet {
    /// Writes the config file and starts a gateway with it.
    pub async fn gateway(&self, name: &str, spec: &GatewaySpec) -> Result<Gateway> {
        let config = self.dir().join(format!("{name}.yaml"));
        std::fs::write(&config, spec.yaml()).map_err(Error::file("writing", &config))?;
        let args = ["gateway".as_ref(), "-c".as_ref(), config.as_os_str()];
        let process = self.meridian(name, args, &["listening on ", "admin on "]).await?;
        let (url, admin) = (process.said(0).to_owned(), process.said(1).to_owned());
        Ok(Gateway { process, url, admin })
    }
}
