//! A gateway in front of a mock replica.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use meridian_fleet::Client;
use meridian_protocol::admin::Status;

use super::super::http::listening;
use super::super::process::Process;
use super::super::replicas::Replicas;
use super::Options;
use super::short::Short;

const CONFIG: &str = include_str!("../../../peers/meridian-streams.yaml");
/// Timeout for the gateway to start.
const START: Duration = Duration::from_secs(60);
/// Timeout for the gateway to have counted all requests.
const COUNTED: Duration = Duration::from_secs(30);
/// Requests before memory is measured: both sides have then used each part once.
const WARM_UP: usize = 200;

/// Both processes.
pub(super) struct RaceWorld {
    pub(super) address: SocketAddr,
    /// host:port
    admin: String,
    client: Client,
    gateway: Process,
    replicas: Replicas,
}

/// What the gateway has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Answered to the last byte.
    pub(super) done: u64,
    /// Refused, failed, or cancelled by the client.
    pub(super) ended_otherwise: u64,
    in_flight: u64,
}

impl RaceWorld {
    pub(super) fn start(options: &Options, binary: &Path, dir: &Path) -> anyhow::Result<RaceWorld> {
        let replicas = Replicas::start(&options.builds.meridian()?, false, false, dir)?;
        let config = CONFIG
            .replace("@CONNECTIONS@", &options.connections().to_string())
            .replace("@REPLICA@", replicas.answers());
        let path = dir.join("gateway.yaml");
        std::fs::write(&path, config)?;
        let mut command = Command::new(binary);
        command.arg("gateway").arg("-c").arg(&path);
        let mut gateway = Process::start(command, dir.join("gateway.log"))?;
        let both = |output: &str| listening(output).zip(admin(output));
        let (address, admin) = gateway.wait(START, both).context("the gateway did not start")?;
        Ok(RaceWorld { address: address.parse()?, admin, client: Client::new(), gateway, replicas })
    }

    /// Sends some requests and waits until memory is used as it will be.
    pub(super) async fn warm_up(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + START;
        let short = Short::new(self.address);
        // Until the first probe there is no replica to choose.
        while let Err(error) = short.ask().await {
            ensure!(Instant::now() < deadline, "the gateway does not answer: {error}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        for _ in 0..WARM_UP {
            short.ask().await?;
        }
        Ok(())
    }

    /// The gateway's resident memory, in bytes.
    pub(super) fn memory(&self) -> u64 {
        self.gateway.memory().0
    }

    /// Fails if one of them has exited.
    pub(super) fn alive(&mut self) -> anyhow::Result<()> {
        self.replicas.alive()?;
        match self.gateway.ended() {
            Some(how) => bail!("the gateway exited: {how}"),
            None => Ok(()),
        }
    }

    /// Lets the replica end its streams.
    pub(super) async fn release(&self) -> anyhow::Result<()> {
        self.replica("/release").await.map(drop)
    }

    /// Bytes of all events that the replica has written.
    pub(super) async fn written(&self) -> anyhow::Result<u64> {
        let answer = self.replica("/open").await?;
        let last = answer.rsplit(' ').next().and_then(|bytes| bytes.parse().ok());
        last.with_context(|| format!("the mock does not count its streams: {answer}"))
    }

    /// A page of the replica.
    async fn replica(&self, path: &str) -> anyhow::Result<String> {
        let answer = self.client.get(&format!("http://{}{path}", self.replicas.answers())).await?;
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    }

    /// The gateway's counts so far.
    pub(super) async fn counts(&self) -> anyhow::Result<Counts> {
        let url = format!("http://{}/admin/status", self.admin);
        let requests = self.client.json::<Status>(&url).await?.requests;
        Ok(Counts {
            done: requests.done,
            ended_otherwise: requests.client_error
                + requests.rejected
                + requests.failed
                + requests.cancelled,
            in_flight: requests.in_flight,
        })
    }

    /// The gateway's counts since `before`, once it has no request left.
    pub(super) async fn settled(&self, before: Counts) -> anyhow::Result<Counts> {
        let deadline = Instant::now() + COUNTED;
        loop {
            let now = self.counts().await?;
            if now.in_flight == 0 {
                let done = now.done - before.done;
                let ended_otherwise = now.ended_otherwise - before.ended_otherwise;
                return Ok(Counts { done, ended_otherwise, in_flight: 0 });
            }
            let left = now.in_flight;
            ensure!(Instant::now() < deadline, "the gateway still has {left} requests in flight");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// The address of the admin port, from the second line that a gateway prints.
fn admin(output: &str) -> Option<String> {
    let (line, _) = output.split_once("admin on http://")?.1.split_once('\n')?;
    Some(line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // The admin address is read once its line is whole.
    #[test]
    fn admin_addresses_are_read() {
        let output = "listening on http://127.0.0.1:80\nadmin on http://127.0.0.1:81";
        assert_eq!(admin(output), None);
        assert_eq!(admin(&format!("{output}\n")).as_deref(), Some("127.0.0.1:81"));
    }
}
