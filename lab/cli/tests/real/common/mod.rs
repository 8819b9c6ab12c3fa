//! Helpers of the tests with real processes: installations, requests and waiting.

// Each test program uses its part of this file.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use meridian_base::Rng;
use meridian_fleet::llamacpp::{self, LlamaCpp};
use meridian_fleet::{Client, Fleet, Gateway, Result};
use meridian_protocol::admin::Status;
use serde_json::json;

/// The limit of every wait, far longer than any step takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// The binary under test.
pub(crate) fn fleet() -> Fleet {
    Fleet::new(crate::programs::MERIDIAN).unwrap_or_else(|error| panic!("{error}"))
}

/// The folder of llama.cpp: one in the repository, for all tests.
pub(crate) fn llamacpp_home() -> PathBuf {
    llamacpp::home(Path::new(env!("CARGO_MANIFEST_DIR")))
}

/// llama.cpp, which is installed if it is missing. A failure names the remedy.
pub(crate) async fn llamacpp() -> LlamaCpp {
    llamacpp::install(&llamacpp_home()).await.unwrap_or_else(|error| panic!("{error}"))
}

/// The gateway's status.
pub(crate) async fn status(client: &Client, gateway: &Gateway) -> Status {
    let url = format!("{}/admin/status", gateway.admin);
    client.json(&url).await.unwrap_or_else(|error| panic!("{error}"))
}

/// Waits until the gateway's status fulfils a condition; returns that status.
pub(crate) async fn status_when(
    client: &Client,
    gateway: &Gateway,
    what: &str,
    holds: impl Fn(&Status) -> bool,
) -> Status {
    let start = Instant::now();
    loop {
        let status = status(client, gateway).await;
        if holds(&status) {
            return status;
        }
        assert!(start.elapsed() < LIMIT, "{what}: not within {LIMIT:?}\n{status:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Whether exactly this many replicas are up.
pub(crate) fn up(count: usize) -> impl Fn(&Status) -> bool {
    move |status| status.replicas.iter().filter(|replica| replica.state == "up").count() == count
}

/// Unwraps; a panic has the error's own message, which includes the logs.
pub(crate) fn must<T>(result: Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

/// Some text from a seed: words of lower-case letters.
pub(crate) fn text(seed: u64, words: usize) -> String {
    let mut rng = Rng::new(seed);
    let mut word = || -> String {
        let letters = 2 + rng.below(6);
        (0..letters).map(|_| char::from(b'a' + rng.below(26) as u8)).collect()
    };
    (0..words).map(|_| word()).collect::<Vec<_>>().join(" ")
}

/// A chat request with one message. It is greedy, so equal prompts get equal answers, and ignores
/// the end-of-sequence token, so an answer has all its tokens.
pub(crate) fn chat(text: &str, tokens: u32, stream: bool) -> String {
    json!({
        "model": "meridian-tiny",
        "messages": [{ "role": "user", "content": text }],
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": true,
        "stream": stream,
    })
    .to_string()
}
