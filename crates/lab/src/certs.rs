//! The certificates of a fleet, made by `meridian certs`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Error, Fleet, Result};

/// A guard: what commands do here takes milliseconds.
const LIMIT: Duration = Duration::from_secs(60);

/// What the control plane is called, and who operates it.
const CONTROL: &str = "control";
const OPERATOR: &str = "operator";

/// The folder of an authority and of the certificates that it issued.
#[derive(Debug, Clone)]
pub struct Certificates {
    dir: PathBuf,
}

impl Certificates {
    /// The file of the authority.
    #[must_use]
    pub fn ca(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    /// A gateway's certificate and key.
    #[must_use]
    pub fn of(&self, gateway: &str) -> (PathBuf, PathBuf) {
        let file = |kind: &str| self.dir.join("gateways").join(format!("{gateway}.{kind}"));
        (file("crt"), file("key"))
    }

    /// The authority, and the control plane's certificate and key.
    #[must_use]
    pub fn control(&self) -> [PathBuf; 3] {
        self.files("control", CONTROL)
    }

    /// The authority, and the certificate and key of whoever operates the fleet.
    #[must_use]
    pub fn operator(&self) -> [PathBuf; 3] {
        self.files("operators", OPERATOR)
    }

    fn files(&self, folder: &str, name: &str) -> [PathBuf; 3] {
        let file = |kind: &str| self.dir.join(folder).join(format!("{name}.{kind}"));
        [self.ca(), file("crt"), file("key")]
    }
}

impl Fleet {
    /// Makes an authority and a certificate for each of these gateways, given with their regions.
    ///
    /// # Errors
    /// When `meridian certs` fails.
    pub async fn certificates(&self, gateways: &[(String, String)]) -> Result<Certificates> {
        let dir = self.dir().join("fleet");
        self.certs(&dir, &["init"], &["--fleet", "lab"]).await?;
        for (gateway, region) in gateways {
            self.certs(&dir, &["issue"], &["--gateway", gateway, "--region", region]).await?;
        }
        Ok(Certificates { dir })
    }

    /// Makes the certificates of the control plane and of whoever operates it.
    ///
    /// # Errors
    /// When `meridian certs` fails.
    pub async fn control_certificates(&self, certificates: &Certificates) -> Result<()> {
        for whose in [["--control", CONTROL], ["--operator", OPERATOR]] {
            self.certs(&certificates.dir, &["issue"], &whose).await?;
        }
        Ok(())
    }

    async fn certs(&self, dir: &Path, command: &[&str], rest: &[&str]) -> Result<()> {
        let mut args: Vec<OsString> = ["certs"].iter().chain(command).map(Into::into).collect();
        args.push(dir.as_os_str().to_owned());
        args.extend(rest.iter().map(Into::into));
        self.command("certs", args, "making the fleet's certificates").await
    }

    /// Runs a command of `meridian` to its end, which is to be a good one.
    pub(crate) async fn command(&self, name: &str, args: Vec<OsString>, what: &str) -> Result<()> {
        let mut process = self.meridian(name, args, &[]).await?;
        let status = process.wait(LIMIT).await?;
        if status.success() {
            return Ok(());
        }
        Err(Error::Tool {
            what: what.to_owned(),
            status,
            remedy: "see what it printed".into(),
            log: process.log_tail(),
        })
    }
}
