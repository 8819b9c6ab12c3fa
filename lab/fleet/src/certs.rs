//! The certificates of a fleet, made with `meridian certs`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Error, Fleet, Result};

/// A guard: the commands here take milliseconds.
const LIMIT: Duration = Duration::from_secs(60);

/// Name of the operator.
const OPERATOR: &str = "operator";

/// The folder of a CA and of its certificates.
#[derive(Debug, Clone)]
pub struct Certificates {
    dir: PathBuf,
}

impl Certificates {
    /// The CA's file.
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

    /// The CA, and a control plane's certificate and key.
    #[must_use]
    pub fn control(&self, name: &str) -> [PathBuf; 3] {
        self.files("control", name)
    }

    /// The CA, and the operator's certificate and key.
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
    /// Creates a CA and a certificate for each of these gateways, given with their regions.
    ///
    /// # Errors
    /// If `meridian certs` fails.
    pub async fn certificates(&self, gateways: &[(String, String)]) -> Result<Certificates> {
        let dir = self.dir().join("fleet");
        self.certs(&dir, &["init"], &["--fleet", "lab"]).await?;
        for (gateway, region) in gateways {
            self.certs(&dir, &["issue"], &["--gateway", gateway, "--region", region]).await?;
        }
        Ok(Certificates { dir })
    }

    /// Creates the certificates of these control planes and of the operator.
    ///
    /// # Errors
    /// If `meridian certs` fails.
    pub async fn control_certificates(
        &self,
        certificates: &Certificates,
        planes: impl IntoIterator<Item = &str>,
    ) -> Result<()> {
        let planes = planes.into_iter().map(|plane| ["--control", plane]);
        for whose in planes.chain([["--operator", OPERATOR]]) {
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

    /// Runs a command of `meridian` to its end; an error if it fails.
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
