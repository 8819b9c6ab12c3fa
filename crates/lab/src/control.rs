//! The control plane of a fleet: `meridian control` with a store of its own, asked with certificates.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::{Certificates, Error, Fleet, Process, Result};

/// A running control plane.
#[derive(Debug)]
pub struct Control {
    /// The process.
    pub process: Process,
    /// Where its admin port is: `https://127.0.0.1:PORT`.
    pub admin: String,
    /// What it is asked with: the authority, a certificate, its key.
    operator: [PathBuf; 3],
}

impl Fleet {
    /// Starts the control plane. `admin` is its address, with port 0 for any. One that was killed
    /// finds its registry again.
    ///
    /// # Errors
    /// When it cannot be started.
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

    /// Adds a replica to a region. Where gateways of other regions reach it, they are told by region.
    ///
    /// # Errors
    /// When the control plane does not answer, or refuses.
    pub async fn add_replica(
        &self,
        control: &Control,
        name: &str,
        region: &str,
        url: &str,
        from: &BTreeMap<String, String>,
    ) -> Result<()> {
        let mut args: Vec<OsString> =
            ["replicas", "add", name, "--region", region, "--url", url].map(Into::into).into();
        // Its gateways may come later.
        args.push("--force".into());
        for (region, url) in from {
            args.extend(["--from".into(), format!("{region}={url}").into()]);
        }
        for (flag, value) in control.asked_with() {
            args.extend([format!("--{flag}").into(), value.into()]);
        }
        self.command("replicas", args, "telling the control plane of a replica").await
    }
}

impl Control {
    /// The address of its admin port.
    #[must_use]
    pub fn address(&self) -> String {
        self.admin.trim_start_matches("https://").to_owned()
    }

    /// What commands that ask it are given, by the names of their flags.
    #[must_use]
    pub fn asked_with(&self) -> [(&'static str, String); 4] {
        let [ca, certificate, key] =
            self.operator.each_ref().map(|file| file.display().to_string());
        [("control", self.admin.clone()), ("ca", ca), ("certificate", certificate), ("key", key)]
    }
}
