//! The gateway of a fleet: a config file, the process, and its admin API.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Error, Fleet, Process, Result};

/// The lease of gateways at their control plane.
pub(crate) const LEASE: Duration = Duration::from_secs(2);

/// Settings of a gateway.
#[derive(Debug, Clone)]
pub struct GatewaySpec {
    /// The region that it serves.
    pub region: String,
    /// Which requests are forwarded, if it has peers.
    pub topology: String,
    /// The policy's name.
    pub policy: String,
    /// The shadow policy's name.
    pub shadow: Option<String>,
    /// The admission mode; none leaves it to the policy.
    pub admission: Option<String>,
    /// The address for clients; port 0 means any.
    pub listen: String,
    /// The admin address; port 0 means any.
    pub admin: String,
    /// The replicas' addresses.
    pub replicas: Vec<String>,
    /// The roles of those that do not serve whole requests, by address.
    pub roles: BTreeMap<String, &'static str>,
    /// Their engine: `auto` detects it.
    pub engine: String,
    /// How replicas with a role hand over KV, if not in their engine's usual way.
    pub transfer: Option<&'static str>,
    /// Gateways of other regions.
    pub peers: Option<PeersSpec>,
    /// The control planes' admin addresses, the nearest first.
    pub control: Vec<String>,
    /// Its address in the fleet's zone, if a control plane answers for one.
    pub public: Option<Ipv4Addr>,
    /// Whether broken streams are resumed on another replica.
    pub resume: bool,
    /// How long engines keep KV for a decode replica, if not the default.
    pub kv_lease: Option<Duration>,
    /// Further lines of the config file.
    pub further: String,
}

/// The peers of a gateway.
#[derive(Debug, Clone)]
pub struct PeersSpec {
    /// Its address for peers; port 0 means any.
    pub listen: String,
    /// The files of the CA, of its certificate and of its key.
    pub files: [PathBuf; 3],
    /// Name, region, and address as seen from here.
    pub gateways: Vec<(String, String, SocketAddr)>,
    /// Gateways that may connect without being followed, as `REGION/NAME`.
    pub accept: Vec<String>,
    /// Interval between two digests, if not the default.
    pub digests: Option<Duration>,
}

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    /// The process.
    pub process: Process,
    /// URL for clients: `http://127.0.0.1:PORT`.
    pub url: String,
    /// URL of the admin API.
    pub admin: String,
    /// Address for peers, if it has any.
    pub peers: Option<SocketAddr>,
}

impl Default for GatewaySpec {
    /// The default policy without replicas, on any ports.
    fn default() -> GatewaySpec {
        GatewaySpec {
            region: "local".into(),
            topology: "two_layer".into(),
            policy: "meridian".into(),
            shadow: None,
            admission: None,
            listen: "127.0.0.1:0".into(),
            admin: "127.0.0.1:0".into(),
            replicas: Vec::new(),
            roles: BTreeMap::new(),
            engine: "auto".into(),
            transfer: None,
            peers: None,
            control: Vec::new(),
            public: None,
            resume: false,
            kv_lease: None,
            further: String::new(),
        }
    }
}

impl GatewaySpec {
    /// The config file, as a person would write it. The registry's view is saved in `view`.
    fn yaml(&self, view: &Path) -> String {
        let mut yaml = format!(
            "version: 1\nregion: {}\nlisten: {}\nadmin: {}\npolicy: {}\n",
            self.region, self.listen, self.admin, self.policy
        );
        if let Some(shadow) = &self.shadow {
            let _ = writeln!(yaml, "shadow: {shadow}");
        }
        if let Some(admission) = &self.admission {
            let _ = writeln!(yaml, "admission: {admission}");
        }
        yaml.push_str(if self.replicas.is_empty() { "replicas: []\n" } else { "replicas:\n" });
        for url in &self.replicas {
            let _ = write!(yaml, "  - url: {url}\n    engine: {}\n", self.engine);
            if let Some(role) = self.roles.get(url) {
                let _ = writeln!(yaml, "    role: {role}");
                if let Some(transfer) = self.transfer {
                    let _ = writeln!(yaml, "    transfer: {transfer}");
                }
            }
        }
        if self.resume {
            yaml.push_str("resume: {}\n");
        }
        if let Some(lease) = &self.kv_lease {
            let _ = writeln!(yaml, "kv_lease: {}ms", lease.as_millis());
        }
        if !self.control.is_empty() {
            let (urls, lease) = (&self.control, LEASE.as_secs());
            let public: Vec<String> = self.public.iter().map(ToString::to_string).collect();
            let public = public.join(", ");
            let _ = writeln!(
                yaml,
                "control: {{url: {urls:?}, lease: {lease}s, view: {view:?}, public: [{public}]}}"
            );
        }
        if let Some(peers) = &self.peers {
            // Only gateways with the same secret share prefixes.
            let _ = writeln!(yaml, "secret: lab\ntopology: {}", self.topology);
            peers.write(&mut yaml);
        }
        yaml.push_str(&self.further);
        yaml
    }
}

impl PeersSpec {
    fn write(&self, yaml: &mut String) {
        let [ca, certificate, key] = self.files.each_ref().map(|file| file.display());
        let _ = write!(
            yaml,
            "peers:\n  listen: {}\n  ca: {ca}\n  certificate: {certificate}\n  key: {key}\n",
            self.listen
        );
        if let Some(every) = &self.digests {
            let ms = every.as_millis();
            let _ = writeln!(yaml, "  push: {ms}ms\n  beat: {ms}ms");
        }
        if !self.accept.is_empty() {
            let _ = writeln!(yaml, "  accept: [{}]", self.accept.join(", "));
        }
        yaml.push_str("  gateways:\n");
        for (name, region, address) in &self.gateways {
            let _ =
                writeln!(yaml, "    - {{name: {name}, region: {region}, address: \"{address}\"}}");
        }
    }
}

impl Fleet {
    /// Writes the config file atomically: a gateway may be reading it.
    pub(crate) fn gateway_file(&self, name: &str, spec: &GatewaySpec) -> Result<PathBuf> {
        let config = self.dir().join(format!("{name}.yaml"));
        let new = self.dir().join(format!("{name}.yaml.new"));
        let view = self.dir().join(format!("{name}.view"));
        std::fs::write(&new, spec.yaml(&view)).map_err(Error::file("writing", &new))?;
        std::fs::rename(&new, &config).map_err(Error::file("writing", &config))?;
        Ok(config)
    }

    /// Writes the config file and starts a gateway with it.
    pub async fn gateway(&self, name: &str, spec: &GatewaySpec) -> Result<Gateway> {
        let config = self.gateway_file(name, spec)?;
        let args = ["gateway".as_ref(), "-c".as_ref(), config.as_os_str()];
        let ready: &[&str] = match spec.peers {
            Some(_) => &["listening on ", "admin on ", "peers on https://"],
            None => &["listening on ", "admin on "],
        };
        let process = self.meridian(name, args, ready).await?;
        let (url, admin) = (process.said(0).to_owned(), process.said(1).to_owned());
        let peers = spec.peers.as_ref().and_then(|_| process.said(2).parse().ok());
        Ok(Gateway { process, url, admin, peers })
    }
}
