//! The mock replicas behind all systems: one for whole requests, or one of each role; and one with
//! https for the systems that need it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use rcgen::{CertificateParams, KeyPair};

use super::http::{Server, listening};
use super::process::Process;

/// The certificate of the one with https, which systems show to their clients, too.
pub(super) const CERTIFICATE: &str = "replica.crt";

/// Timeout for the first line of a mock.
const START: Duration = Duration::from_secs(60);

/// A mock in a process of its own.
struct Mock {
    /// host:port
    address: String,
    process: Process,
}

impl Mock {
    fn start(meridian: &Path, arguments: &[&str], log: &str, dir: &Path) -> anyhow::Result<Mock> {
        let mut command = Command::new(meridian);
        command.args(["bench", "mock"]).args(arguments);
        let mut process = Process::start(command, dir.join(log))?;
        let address = process.wait(START, listening).context("the mock did not start")?;
        Ok(Mock { address, process })
    }

    /// Completions that it was asked for.
    fn count(&self) -> anyhow::Result<u64> {
        let answer = Server::plain(&*self.address).get("/count")?;
        answer.parse().with_context(|| format!("the mock does not count: {answer}"))
    }
}

/// Writes a certificate for this machine, which is its own authority, its key, and a file with both,
/// as HAProxy reads them; the paths of the first two.
fn certify(dir: &Path) -> anyhow::Result<[String; 2]> {
    let key = KeyPair::generate()?;
    let names = ["127.0.0.1", "localhost"].map(str::to_owned);
    let certificate = CertificateParams::new(names)?.self_signed(&key)?;
    let paths = [CERTIFICATE, "replica.key"].map(|name| dir.join(name));
    for (path, text) in paths.iter().zip([certificate.pem(), key.serialize_pem()]) {
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    std::fs::write(dir.join("replica.pem"), certificate.pem() + &key.serialize_pem())?;
    Ok(paths.map(|path| path.display().to_string()))
}

/// The replicas, each on a free port.
pub(super) struct Replicas {
    answers: Mock,
    prefill: Option<Mock>,
    secured: Option<Mock>,
}

impl Replicas {
    pub(super) fn start(
        meridian: &Path,
        pools: bool,
        secured: bool,
        dir: &Path,
    ) -> anyhow::Result<Replicas> {
        let start = |arguments: &[&str], log| Mock::start(meridian, arguments, log, dir);
        let prefill = pools.then(|| start(&["--prefill"], "mock-prefill.log")).transpose()?;
        let secured = secured.then(|| {
            let [certificate, key] = certify(dir)?;
            start(&["--certificate", &certificate, "--key", &key], "mock-https.log")
        });
        Ok(Replicas { answers: start(&[], "mock.log")?, prefill, secured: secured.transpose()? })
    }

    /// host:port of the one with https; empty if there is none.
    pub(super) fn secured(&self) -> &str {
        self.secured.as_ref().map_or("", |mock| &mock.address)
    }

    /// host:port of the one that answers clients.
    pub(super) fn answers(&self) -> &str {
        &self.answers.address
    }

    /// host:port of the one that computes prompts; empty if there is none.
    pub(super) fn prefill(&self) -> &str {
        self.prefill.as_ref().map_or("", |mock| &mock.address)
    }

    /// Completions that both were asked for: by the prefill replica, if there is one, and by the
    /// other.
    pub(super) fn counts(&self) -> anyhow::Result<(Option<u64>, u64)> {
        let prefill = self.prefill.as_ref().map(Mock::count).transpose()?;
        Ok((prefill, self.answers.count()?))
    }

    /// Fails if one has exited.
    pub(super) fn alive(&mut self) -> anyhow::Result<()> {
        for mock in self.prefill.iter_mut().chain(&mut self.secured).chain([&mut self.answers]) {
            if let Some(how) = mock.process.ended() {
                bail!("the mock exited during the race: {how}");
            }
        }
        Ok(())
    }
}
