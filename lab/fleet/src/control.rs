//! The control planes of a fleet: `meridian control`, each with a file of its own or with one etcd.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;

use crate::{Certificates, Error, Fleet, Process, Result};

/// Settings of a control plane.
#[derive(Debug, Clone)]
pub struct ControlSpec {
    /// Its name in the fleet, also in its certificate.
    pub name: String,
    /// Its address; port 0 means any.
    pub admin: String,
    /// The addresses of etcd, the nearest first; a file of its own if there are none.
    pub etcd: Vec<String>,
    /// Further lines of the config file.
    pub further: String,
    /// Without certificates it speaks plain HTTP.
    pub certificates: Option<Certificates>,
}

/// A running control plane.
#[derive(Debug)]
pub struct Control {
    /// The process.
    pub process: Process,
    /// URL of its admin port: `https://127.0.0.1:PORT`.
    pub admin: String,
    /// Files for its clients: the CA, a certificate, its key.
    operator: Option<[PathBuf; 3]>,
}

impl Fleet {
    /// Starts a control plane. After a kill it finds its registry again.
    ///
    /// # Errors
    /// If it can't be started.
    pub async fn control(&self, spec: &ControlSpec) -> Result<Control> {
        let (name, admin) = (&spec.name, &spec.admin);
        let mut yaml = format!("version: 1\nadmin: {admin}\n");
        let _ = match spec.etcd.is_empty() {
            true => {
                let store = self.dir().join(format!("{name}.redb"));
                writeln!(yaml, "store: {}", store.display())
            }
            false => writeln!(yaml, "etcd: {{endpoints: {:?}}}", spec.etcd),
        };
        if let Some(certificates) = &spec.certificates {
            let [ca, certificate, key] = certificates.control(name);
            let (ca, certificate, key) = (ca.display(), certificate.display(), key.display());
            let _ = writeln!(yaml, "tls: {{ca: {ca}, certificate: {certificate}, key: {key}}}");
        }
        yaml.push_str(&spec.further);
        let file = self.dir().join(format!("{name}.yaml"));
        std::fs::write(&file, yaml).map_err(Error::file("writing", &file))?;
        let args = ["control".as_ref(), "-c".as_ref(), file.as_os_str()];
        let process = self.meridian(name, args, &["admin on "]).await?;
        let admin = process.said(0).to_owned();
        let operator = spec.certificates.as_ref().map(Certificates::operator);
        Ok(Control { process, admin, operator })
    }

    /// Adds a replica to a region with its address and its role, and with separate addresses for
    /// the gateways of other regions if needed.
    ///
    /// # Errors
    /// If the control plane does not answer, or refuses.
    pub async fn add_replica(
        &self,
        control: &Control,
        name: &str,
        (region, url, role): (&str, &str, &str),
        from: &BTreeMap<String, String>,
    ) -> Result<()> {
        let mut args: Vec<OsString> =
            ["replicas", "add", name, "--region", region, "--url", url].map(Into::into).into();
        // Its gateways may come later.
        args.push("--force".into());
        args.extend(["--role".into(), role.into()]);
        for (region, url) in from {
            args.extend(["--from".into(), format!("{region}={url}").into()]);
        }
        args.extend(["--control".into(), control.admin.clone().into()]);
        for (flag, value) in control.shown() {
            args.extend([format!("--{flag}").into(), value.into()]);
        }
        self.command("replicas", args, "registering a replica at the control plane").await
    }
}

impl Control {
    /// The address of its admin port.
    #[must_use]
    pub fn address(&self) -> String {
        let address = self.admin.split_once("://").map_or(&*self.admin, |(_, address)| address);
        address.to_owned()
    }

    /// Flags of commands that connect to it, with the files that they show.
    #[must_use]
    pub fn shown(&self) -> Vec<(&'static str, String)> {
        let flags = ["ca", "certificate", "key"].into_iter();
        let files = self.operator.iter().flatten().map(|file| file.display().to_string());
        flags.zip(files).collect()
    }
}
