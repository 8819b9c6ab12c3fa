//! The certificates of a fleet, made by `meridian certs`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{Error, Fleet, Result};

/// A guard: an authority is made in milliseconds.
const LIMIT: Duration = Duration::from_secs(60);

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

    async fn certs(&self, dir: &Path, command: &[&str], rest: &[&str]) -> Result<()> {
        let mut args: Vec<_> = ["certs"].iter().chain(command).map(Into::into).collect();
        args.push(dir.as_os_str().to_owned());
        args.extend(rest.iter().map(Into::into));
        let mut process = self.meridian("certs", args, &[]).await?;
        let status = process.wait(LIMIT).await?;
        if status.success() {
            return Ok(());
        }
        Err(Error::Tool {
            what: "making the fleet's certificates".into(),
            status,
            remedy: "see what it printed".into(),
            log: process.log_tail(),
        })
    }
}
