//! Short requests, which are timed beside the streams.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::ensure;
use meridian_fleet::Client;

use super::body;

/// Between two of them.
const PAUSE: Duration = Duration::from_millis(10);

/// A client that sends them over one connection.
pub(super) struct Short {
    client: Client,
    url: String,
}

impl Short {
    pub(super) fn new(address: SocketAddr) -> Short {
        let url = format!("http://{address}/v1/chat/completions");
        Short { client: Client::keeping(), url }
    }

    /// Sends one; the time until its answer was complete.
    pub(super) async fn ask(&self) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let status = self.client.post(&self.url, body(false, "hello")).await?.status;
        ensure!(status == 200, "a short request got status {status}");
        Ok(began.elapsed())
    }
}

/// Sends one after the other for so long, from a thread that reads no stream; their times in seconds.
pub(super) fn time(address: SocketAddr, hold: Duration) -> anyhow::Result<Vec<f64>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (short, mut times) = (Short::new(address), Vec::new());
        let until = Instant::now() + hold;
        while Instant::now() < until {
            times.push(short.ask().await?.as_secs_f64());
            tokio::time::sleep(PAUSE).await;
        }
        Ok(times)
    })
}
