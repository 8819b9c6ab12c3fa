//! Measures how an endpoint counts tokens: two prompts of known bytes, and the difference of their
//! counts.

use std::time::Instant;

use anyhow::bail;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use meridian_base::mix;
use meridian_workload::{BYTES_PER_TOKEN, write_text};
use serde_json::json;
use tokio::time::timeout;

use crate::load::exchange::exchange;
use crate::load::http::{self as client, Http};
use crate::load::{ErrorKind, Options, Seen, Tokens};

/// Bytes of the two prompts.
const PROMPTS: [u32; 2] = [1000, 9000];

/// The endpoint's tokens; four bytes each if it reports no usage.
///
/// # Errors
/// An address or a key that is invalid, or a prompt that is not answered.
pub(super) async fn measure(http: &Http, load: &Options) -> anyhow::Result<Tokens> {
    let mut counts = [None; 2];
    for (count, bytes) in counts.iter_mut().zip(PROMPTS) {
        *count = ask(http, load, bytes).await?;
    }
    let measured = counts[0].zip(counts[1]).map(|(short, long)| fit([short, long]));
    Ok(measured.flatten().unwrap_or(Tokens { bytes: f64::from(BYTES_PER_TOKEN), template: 0.0 }))
}

/// The line through both counts; `None` if they are no line.
fn fit([short, long]: [u64; 2]) -> Option<Tokens> {
    let tokens = long.checked_sub(short).filter(|tokens| *tokens > 0)?;
    let bytes = f64::from(PROMPTS[1] - PROMPTS[0]) / tokens as f64;
    let template = short as f64 - f64::from(PROMPTS[0]) / bytes;
    (0.5..=16.0).contains(&bytes).then_some(Tokens { bytes, template: template.max(0.0) })
}

/// Tokens of a new prompt of this many bytes, by the engine's count.
async fn ask(http: &Http, load: &Options, bytes: u32) -> anyhow::Result<Option<u64>> {
    let mut text = String::new();
    write_text(&mut text, mix(load.seed, u64::from(bytes)), bytes);
    let body = json!({
        "model": load.model,
        "messages": [{"role": "user", "content": text}],
        "max_tokens": 1,
    });
    let mut request = Request::post(client::join(&load.url, "/v1/chat/completions")?)
        .header("content-type", "application/json");
    if let Some(key) = load.any_key() {
        request = request.header("authorization", format!("Bearer {key}"));
    }
    let request = request.body(Full::from(Bytes::from(body.to_string())))?;
    let mut seen = Seen::default();
    let answer = exchange(http, request, false, Instant::now(), &mut seen);
    let end = timeout(load.timeout, answer).await.unwrap_or(Err(ErrorKind::Timeout));
    if let Err(kind) = end {
        bail!(
            "a prompt of {bytes} bytes, which measures the tokens of {}, failed with {}: give \
             --bytes-per-token, or correct the address, the key or the model",
            load.url,
            kind.name()
        );
    }
    Ok(seen.usage.filter(|usage| usage.prompt > 0).map(|usage| usage.prompt))
}

#[cfg(test)]
mod tests {
    use super::*;

    // A tokenizer of five bytes a token behind a template of 20 tokens; counts that do not grow
    // are no line.
    #[test]
    fn counts_give_bytes_and_template() {
        let tokens = fit([220, 1820]).expect("a line");
        assert!((tokens.bytes - 5.0).abs() < 1e-9 && (tokens.template - 20.0).abs() < 1e-9);
        assert_eq!(fit([100, 100]), None);
        assert_eq!(fit([100, 90]), None);
    }
}
