//! Sends one prompt at a time, and checks the replica before it.

use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use meridian_base::mix;
use meridian_fleet::Lines;
use meridian_protocol::engines::{self, Answers, Engine};
use meridian_workload::write_text;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::{Options, Point};
use crate::load::http::{self as client, Http};

/// Timeout for a page of the replica.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of a token until the engine has counted one prompt.
const GUESS: f64 = 4.0;

/// A replica to measure.
pub(super) struct Replica {
    pub(super) model: String,
    /// Tokens that fit, if it reports them.
    pub(super) room: Option<u32>,
    engine: Option<Engine>,
    chat: Uri,
    metrics: Uri,
    bytes_per_token: f64,
    prompts: u64,
}

/// The result of a prompt.
pub(super) enum Asked {
    Answered(Point),
    /// It is too long.
    Refused,
}

impl Replica {
    /// Finds the model and its limits.
    pub(super) async fn meet(http: &Http, options: &Options) -> anyhow::Result<Replica> {
        let uri = |path| client::join(&options.url, path);
        let key = options.api_key.as_deref();
        let list = client::get_json(http, uri("/v1/models")?, key, PATIENCE).await?;
        let models = list["data"].as_array().cloned().unwrap_or_default();
        let asked = |m: &&Value| options.model.as_deref().is_none_or(|name| m["id"] == name);
        let model = models.iter().find(asked).with_context(|| match &options.model {
            Some(name) => format!("{} does not serve {name}: see its /v1/models", options.url),
            None => format!("{} lists no model: name one with --model", options.url),
        })?;
        let said = model["max_model_len"].as_u64().or(model["meta"]["n_ctx"].as_u64());
        // The template and the answer need some tokens too.
        let room = said.map(|n| u32::try_from(n).unwrap_or(u32::MAX).saturating_sub(64));
        let metrics = uri("/metrics")?;
        let page = page(http, &metrics).await;
        let engine = engines::detect(&Answers { metrics: page.as_deref(), ..Answers::default() });
        Ok(Replica {
            model: model["id"].as_str().unwrap_or_default().to_owned(),
            room,
            engine,
            chat: uri("/v1/chat/completions")?,
            metrics,
            bytes_per_token: GUESS,
            prompts: 0,
        })
    }

    /// Requests one token after a new prompt of about this many tokens.
    pub(super) async fn ask(
        &mut self,
        http: &Http,
        options: &Options,
        tokens: u32,
    ) -> anyhow::Result<Asked> {
        let busy = self.is_busy(http).await;
        self.prompts += 1;
        let bytes = (f64::from(tokens) * self.bytes_per_token) as u32;
        let mut text = String::with_capacity(bytes as usize);
        // The id differs from the first word on, so no prefix is shared.
        write_text(&mut text, mix(options.seed, self.prompts), bytes);
        let body = json!({
            "model": self.model, "messages": [{"role": "user", "content": text}],
            "max_tokens": 1, "temperature": 0, "stream": true,
            "stream_options": {"include_usage": true},
        });
        let mut request = Request::post(&self.chat).header("content-type", "application/json");
        if let Some(key) = &options.api_key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let request = request.body(Full::from(Bytes::from(body.to_string())));
        let request = request.context("the API key is not a header value")?;
        let sent = Instant::now();
        let answered = timeout(options.timeout, async {
            let response = http.request(request).await.context("the replica does not answer")?;
            let status = response.status();
            match status.is_success() {
                true => read(response.into_body(), sent).await.map(Some),
                // A prompt that is too long, in the words of most engines.
                false if status == StatusCode::BAD_REQUEST => Ok(None),
                false => bail!("the replica answered {status}"),
            }
        });
        let late = || format!("no answer within {:?}: use shorter prompts", options.timeout);
        let Some((ttft, usage)) = answered.await.with_context(late)?? else {
            return Ok(Asked::Refused);
        };
        let prompt = usage["prompt_tokens"].as_u64().filter(|n| *n > 0).context(
            "the replica counts no tokens: its streams must report usage (include_usage)",
        )?;
        let cached = usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0);
        // The template's tokens are included in the count, so longer prompts give a more accurate
        // ratio.
        self.bytes_per_token = (f64::from(bytes) / prompt as f64).clamp(0.5, 16.0);
        let ttft_ms = ttft.as_secs_f64() * 1e3;
        Ok(Asked::Answered(Point { tokens: prompt.saturating_sub(cached), cached, ttft_ms, busy }))
    }

    /// Whether it is serving requests of others now: none of ours is in progress.
    async fn is_busy(&self, http: &Http) -> bool {
        let Some(page) = page(http, &self.metrics).await else { return false };
        let load = self.engine.and_then(|engine| engine.read_load(&page).ok());
        load.and_then(|load| load.outstanding()).is_some_and(|n| n > 0)
    }
}

async fn page(http: &Http, uri: &Uri) -> Option<Bytes> {
    client::get(http, uri, None, PATIENCE).await.ok()
}

/// The time to the first token, and the usage.
async fn read(mut body: Incoming, sent: Instant) -> anyhow::Result<(Duration, Value)> {
    let (mut lines, mut ttft, mut usage) = (Lines::default(), None, Value::Null);
    while let Some(frame) = body.frame().await {
        let frame = frame.context("the answer broke off")?;
        let Some(data) = frame.data_ref() else { continue };
        let now = sent.elapsed();
        let mut each = |payload: &[u8]| {
            let Ok(event) = serde_json::from_slice::<Value>(payload) else { return true };
            let choice = &event["choices"][0];
            let text = choice["delta"]["content"].as_str().unwrap_or_default();
            // An answer that ends at once, or whose only token has no text, has started too.
            if !text.is_empty() || choice["finish_reason"].is_string() {
                ttft = ttft.or(Some(now));
            }
            if !event["usage"].is_null() {
                usage = event["usage"].clone();
            }
            true
        };
        let read = lines.push(data, &mut each);
        read.map_err(|_| anyhow::anyhow!("an event of the answer is too long"))?;
    }
    Ok((ttft.context("the answer has no token")?, usage))
}
