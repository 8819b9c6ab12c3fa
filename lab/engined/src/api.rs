//! Requests of the OpenAI API, as far as an engine model needs them. Unknown fields are ignored, as
//! in vLLM.
//!
//! Parse errors name the line and column, never the value there: it may be a prompt.

use crate::prompt::Prompt;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The fields that chat and text completions share.
#[derive(Debug, Deserialize)]
pub(crate) struct Common<'a> {
    pub(crate) model: Option<String>,
    pub(crate) max_tokens: Option<u32>,
    pub(crate) max_completion_tokens: Option<u32>,
    pub(crate) stream: Option<bool>,
    pub(crate) stream_options: Option<StreamOptions>,
    pub(crate) n: Option<u32>,
    pub(crate) seed: Option<i64>,
    pub(crate) cache_salt: Option<String>,
    pub(crate) kv_transfer_params: Option<serde_json::Value>,
    continue_final_message: Option<bool>,
    add_generation_prompt: Option<bool>,
    messages: Option<Vec<Message<'a>>>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    prompt: Option<Text>,
    input: Option<Text>,
}

/// `stream_options`.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct StreamOptions {
    #[serde(default)]
    pub(crate) include_usage: bool,
    #[serde(default)]
    pub(crate) continuous_usage_stats: bool,
}

#[derive(Debug, Deserialize)]
struct Message<'a> {
    role: String,
    content: Option<Content>,
    #[serde(borrow)]
    tool_calls: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

/// A part of a message: text, or something else, which counts by its URL.
#[derive(Debug, Deserialize)]
struct Part {
    text: Option<String>,
    image_url: Option<ImageUrl>,
}

#[derive(Debug, Deserialize)]
struct ImageUrl {
    url: String,
}

/// A text, or token ids, or a list of one of these.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Text {
    One(String),
    Tokens(Vec<u32>),
    Many(Vec<String>),
    ManyTokens(Vec<Vec<u32>>),
}

/// Why a body is not a request; for the client.
pub(crate) type BadRequest = String;

/// Parses a body.
pub(crate) fn parse(body: &[u8]) -> Result<Common<'_>, BadRequest> {
    serde_json::from_slice(body).map_err(|error| {
        let what = if error.is_data() {
            "a field of the body has the wrong type"
        } else {
            "the body is not valid JSON"
        };
        format!("{what} (line {}, column {})", error.line(), error.column())
    })
}

impl Common<'_> {
    /// The canonical text of the messages, for a model or one of its adapters.
    pub(crate) fn chat_prompt(&self, adapter: Option<&str>) -> Result<Prompt, BadRequest> {
        let messages = self.messages.as_deref().unwrap_or_default();
        if messages.is_empty() {
            return Err("messages is missing or empty: send at least one message".to_owned());
        }
        let mut prompt = self.scoped(adapter);
        if let Some(tools) = self.tools {
            prompt.push(tools.get());
            prompt.push("\n");
        }
        let (messages, start) = self.messages_and_start(messages)?;
        for message in messages {
            message.push_to(&mut prompt);
        }
        prompt.push("assistant\n");
        if let Some(text) = start {
            prompt.go_on(text);
        }
        Ok(prompt)
    }

    /// The messages, and the start of the reply if it should be continued: the text of the last
    /// message, without a line end.
    fn messages_and_start<'m>(
        &self,
        messages: &'m [Message<'_>],
    ) -> Result<(&'m [Message<'m>], Option<&'m str>), BadRequest> {
        if self.continue_final_message != Some(true) {
            return Ok((messages, None));
        }
        if self.add_generation_prompt != Some(false) {
            return Err(
                "continue_final_message is true: add_generation_prompt must be false".to_owned()
            );
        }
        match messages.split_last() {
            Some((Message { role, content: Some(Content::Text(text)), .. }, before))
                if role == "assistant" =>
            {
                Ok((before, Some(text)))
            }
            _ => {
                Err("continue_final_message is true: the last message must be an assistant's text"
                    .to_owned())
            }
        }
    }

    /// The text of `prompt` (or of `input`, for embeddings).
    pub(crate) fn text_prompt(
        &self,
        field: &str,
        adapter: Option<&str>,
    ) -> Result<Prompt, BadRequest> {
        let text = if field == "input" { &self.input } else { &self.prompt };
        let mut prompt = self.scoped(adapter);
        match text {
            Some(Text::One(text)) => prompt.push(text),
            Some(Text::Tokens(tokens)) => push_tokens(&mut prompt, tokens),
            Some(Text::Many(many)) if many.len() == 1 => prompt.push(&many[0]),
            Some(Text::ManyTokens(many)) if many.len() == 1 => push_tokens(&mut prompt, &many[0]),
            Some(_) => return Err(format!("{field} has several entries: send one at a time")),
            None => return Err(format!("{field} is missing: send a string or a list of tokens")),
        }
        Ok(prompt)
    }

    fn scoped(&self, adapter: Option<&str>) -> Prompt {
        Prompt::new(self.cache_salt.as_deref().unwrap_or_default(), adapter)
    }

    pub(crate) fn wants_usage(&self) -> bool {
        self.stream_options.as_ref().is_some_and(|options| options.include_usage)
    }

    /// Whether each event should contain the usage so far, as in vLLM if a client asks for both.
    pub(crate) fn wants_counts(&self) -> bool {
        let asked =
            |options: &StreamOptions| options.include_usage && options.continuous_usage_stats;
        self.stream_options.as_ref().is_some_and(asked)
    }

    /// The client's limit on the reply.
    pub(crate) fn cap(&self) -> Result<Option<u32>, BadRequest> {
        let cap = self.max_completion_tokens.or(self.max_tokens);
        match cap {
            Some(0) => Err("max_tokens is 0: ask for at least 1 token".to_owned()),
            cap => Ok(cap),
        }
    }
}

impl Message<'_> {
    fn push_to(&self, prompt: &mut Prompt) {
        prompt.push(&self.role);
        prompt.push("\n");
        match &self.content {
            Some(Content::Text(text)) => prompt.push(text),
            Some(Content::Parts(parts)) => parts.iter().for_each(|part| part.push_to(prompt)),
            None => {}
        }
        if let Some(calls) = self.tool_calls {
            prompt.push(calls.get());
        }
        prompt.push("\n");
    }
}

impl Part {
    fn push_to(&self, prompt: &mut Prompt) {
        if let Some(text) = &self.text {
            prompt.push(text);
        }
        if let Some(image) = &self.image_url {
            prompt.push(&image.url);
        }
    }
}

/// A token id stands for its four bytes, so the number of tokens stays the same.
fn push_tokens(prompt: &mut Prompt, tokens: &[u32]) {
    let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
    prompt.push_bytes(&bytes);
}
