//! The control plane of a fleet: `meridian control` with its own store, used with certificates.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::{Certificates, Error, Fleet, Process, Result};

/// A running control plane.
#[derive(Debug)]
pub struct Control {
    /// The process.
    pub process: Process,
    /// URL of its admin port: `https://127.0.0.1:PORT`.
    pub admin: String,
    /// Files for its clients: the CA, a certificate, its key.
    operator: [PathBuf; 3],
}

impl Fleet {
    /// Starts the control plane. `admin` is its address, with port 0 for any. After a kill it finds
    /// its registry again.
    ///
    /// # Errors
    /// If it can't be started.
    pub async fn control(&self, admin: &str, certificates: &Certificates) -> Result<Control> {
        let (file, store) = (self.dir().join("control.yaml"), self.dir().join("control.redb"));
        let control = certificates.control();
        let [ca, certificate, key] = control.each_ref().map(|file| file.display());
        let yaml = format!(
            "version: 1\nstore: {}\nadmin: {admin}\n\
             tls:\n  ca: {ca}\n  certificate: {certificate}\n  key: {key}\n",
            store.display()
        );
        std::fs::write(&file, yaml).map_err(Error::file("writing", &file))?;
        let args = ["control".as_ref(), "-c".as_ref(), file.as_os_str()];
        let process = self.meridian("control", args, &["admin on "]).await?;
        let admin = process.said(0).to_owned();
        Ok(Control { process, admin, operator: certificates.operator() })
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
        for (flag, value) in control.asked_with() {
            args.extend([format!("--{flag}").into(), value.into()]);
        }
        self.command("replicas", args, "registering a replica at the control plane").await
    }
}

impl Control {
    /// The address of its admin port.
    #[must_use]
    pub fn address(&self) -> String {
        self.admin.trim_start_matches("https://").to_owned()
    }

    /// Flags of commands that connect to it, with their values.
    #[must_use]
    pub fn asked_with(&self) -> [(&'static str, String); 4] {
        let [ca, certificate, key] =
            self.operator.each_ref().map(|file| file.display().to_string());
        [("control", self.admin.clone()), ("ca", ca), ("certificate", certificate), ("key", key)]
    }
}
