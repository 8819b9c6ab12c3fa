//! Short requests, which are timed beside the streams.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::ensure;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};

use super::body;
use meridian_tools::load::http::Http;
use meridian_tools::load::http::client;

/// Between two of them.
const PAUSE: Duration = Duration::from_millis(10);

/// A client that sends them.
pub(super) struct Short {
    http: Http,
    url: String,
}

impl Short {
    pub(super) fn new(address: SocketAddr) -> Short {
        let url = format!("http://{address}/v1/chat/completions");
        Short { http: client(Duration::from_secs(5)), url }
    }

    /// Sends one; the time until its answer was complete.
    pub(super) async fn ask(&self) -> anyhow::Result<Duration> {
        let request = http::Request::post(&self.url)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body(false, "hello"))))?;
        let began = Instant::now();
        let answer = self.http.request(request).await?;
        let status = answer.status();
        answer.into_body().collect().await?;
        ensure!(status.is_success(), "a short request got status {status}");
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
