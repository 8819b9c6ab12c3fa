//! Single requests, and the line by which our programs tell their address.

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use meridian_fleet::{Answer, Client};
use tokio::runtime::Builder;

/// Timeout of an answer.
const LIMIT: Duration = Duration::from_secs(10);

/// A server.
#[derive(Clone, Debug)]
pub(super) struct Server {
    /// host:port
    pub(super) address: String,
    /// The certificate that it shows, if it speaks TLS.
    pub(super) certificate: Option<PathBuf>,
}

impl Server {
    /// One without TLS.
    pub(super) fn plain(address: impl Into<String>) -> Server {
        Server { address: address.into(), certificate: None }
    }

    /// The URL of `path`.
    pub(super) fn url(&self, path: &str) -> String {
        let scheme = if self.certificate.is_some() { "https" } else { "http" };
        format!("{scheme}://{}{path}", self.address)
    }

    /// Posts a chat completion and reads the whole answer, over a connection of its own.
    pub(super) fn post(&self, body: Vec<u8>) -> anyhow::Result<Answer> {
        let client = self.client()?;
        wait(async { Ok(client.post(&self.url("/v1/chat/completions"), body).await?) })
    }

    /// Gets the text of a page.
    pub(super) fn get(&self, path: &str) -> anyhow::Result<String> {
        let client = self.client()?;
        let answer = wait(async { Ok(client.get(&self.url(path)).await?) })?;
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    }

    fn client(&self) -> anyhow::Result<Client> {
        let trusting = self.certificate.as_deref().map(Client::trusting).transpose()?;
        Ok(trusting.unwrap_or_default())
    }
}

/// Waits for an answer, outside of any runtime.
fn wait<T>(asked: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    // The timer starts in the runtime.
    runtime.block_on(async { tokio::time::timeout(LIMIT, asked).await? })
}

/// The address in the line that our own programs print when they are ready.
pub(super) fn listening(output: &str) -> Option<String> {
    let line = output.lines().find_map(|l| l.strip_prefix("listening on http"))?;
    let (_, address) = line.split_once("://")?;
    output.contains('\n').then(|| address.trim().to_owned())
}
