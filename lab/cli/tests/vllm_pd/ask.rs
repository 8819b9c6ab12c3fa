//! A request with one answer, and what a client sees of it: the text and the first token's
//! log-probability. Prompts and texts are compared, and never printed.

use meridian_fleet::{Client, Result, Stream};
use serde_json::{Value, json};

use super::engines::MODEL;

pub(super) const CHAT: &str = "/v1/chat/completions";
pub(super) const COMPLETION: &str = "/v1/completions";
/// Log-probabilities differ by less: engines add 32-bit floats in different orders.
const TOLERANCE: f64 = 1e-3;

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) path: &'static str,
    pub(super) body: Value,
}

/// An answer.
#[derive(Default)]
pub(super) struct Said {
    pub(super) status: u16,
    pub(super) text: String,
    pub(super) first_logprob: Option<f64>,
    pub(super) prompt_tokens: u64,
    /// The replica that answered.
    pub(super) replica: Option<String>,
    /// The replica that computed the prompt, if it is another one.
    pub(super) prefill: Option<String>,
    /// Error events of a stream.
    pub(super) errors: usize,
    /// End marks of a stream.
    pub(super) ends: usize,
    /// The code of an error.
    pub(super) code: Option<String>,
}

impl Asked {
    /// A greedy request for log-probabilities, which never ends before its limit.
    pub(super) fn new(path: &'static str, prompt: &str, tokens: u32, stream: bool) -> Asked {
        let mut body = json!({
            "model": MODEL, "max_tokens": tokens, "temperature": 0, "ignore_eos": true,
        });
        if path == CHAT {
            body["messages"] = json!([{"role": "user", "content": prompt}]);
            body["logprobs"] = true.into();
            body["top_logprobs"] = 1.into();
        } else {
            body["prompt"] = prompt.into();
            body["logprobs"] = 1.into();
        }
        if stream {
            body["stream"] = true.into();
            body["stream_options"] = json!({"include_usage": true});
        }
        Asked { path, body }
    }

    /// The answer of an engine or a gateway.
    pub(super) async fn at(&self, url: &str) -> Said {
        self.raw(url, self.body.to_string(), &[]).await
    }

    /// The same for the bytes of a body, with further headers.
    pub(super) async fn raw(&self, url: &str, body: String, headers: &[(&str, &str)]) -> Said {
        let opened = self.open(url, body, headers).await;
        let stream = opened.unwrap_or_else(|error| panic!("{error}"));
        let is_stream = self.body["stream"] == true;
        Said::of(stream, is_stream).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// The answer's head; the rest is not read.
    pub(super) async fn open(
        &self,
        url: &str,
        body: String,
        headers: &[(&str, &str)],
    ) -> Result<Stream> {
        Client::new().open(&format!("{url}{}", self.path), body, headers).await
    }
}

impl Said {
    /// Reads an answer to its end.
    pub(super) async fn of(mut stream: Stream, is_stream: bool) -> Result<Said> {
        let mut said = Said { status: stream.status, ..Said::default() };
        said.replica = stream.header("x-meridian-replica").map(str::to_owned);
        said.prefill = stream.header("x-meridian-prefill-replica").map(str::to_owned);
        said.code = stream.header("x-meridian-refused").map(str::to_owned);
        if !is_stream || stream.status != 200 {
            let answer = stream.whole().await?;
            said.take(&answer.value());
            return Ok(said);
        }
        while let Some(event) = stream.next().await? {
            said.errors += usize::from(event.is_error());
            said.ends += usize::from(event.is_done());
            said.take(&event.value());
        }
        Ok(said)
    }

    fn take(&mut self, part: &Value) {
        let choice = &part["choices"][0];
        let text = [&choice["text"], &choice["message"]["content"], &choice["delta"]["content"]];
        self.text.extend(text.iter().filter_map(|text| text.as_str()));
        let probabilities = &choice["logprobs"];
        let first = probabilities["token_logprobs"][0].as_f64();
        let first = first.or_else(|| probabilities["content"][0]["logprob"].as_f64());
        self.first_logprob = self.first_logprob.or(first);
        self.prompt_tokens = part["usage"]["prompt_tokens"].as_u64().unwrap_or(self.prompt_tokens);
    }

    /// Whether both are whole answers with the same text and first log-probability.
    pub(super) fn is(&self, other: &Said) -> bool {
        let (Some(ours), Some(others)) = (self.first_logprob, other.first_logprob) else {
            return false;
        };
        let both = [self, other].iter().all(|said| said.status == 200 && said.errors == 0);
        both && !self.text.is_empty()
            && self.text == other.text
            && (ours - others).abs() < TOLERANCE
    }
}
