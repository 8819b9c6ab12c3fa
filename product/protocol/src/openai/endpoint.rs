//! Endpoints by path, and their few differences.

/// The endpoint that a request path selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// `/v1/chat/completions`
    ChatCompletions,
    /// `/v1/completions`
    Completions,
    /// `/v1/responses`
    Responses,
    /// `/v1/embeddings`
    Embeddings,
    /// `/v1/messages`, Anthropic's form
    Messages,
    /// `/v1/messages/count_tokens`, Anthropic's form; only the model is read from the body
    CountTokens,
    /// `/tokenize` and `/detokenize` of engines; only the model is read from the body
    Tokenize,
    /// `/v1/models` and `/v1/models/{id}`
    Models,
    /// Any other path, an engine's own: only the engines' private fields are removed from its body.
    #[default]
    Other,
}

impl Endpoint {
    /// The endpoint of a request path, with or without a query and a trailing slash.
    #[must_use]
    pub fn of(path: &str) -> Endpoint {
        let path = path.split(['?', '#']).next().unwrap_or(path);
        match path.strip_suffix('/').unwrap_or(path) {
            "/v1/chat/completions" => Endpoint::ChatCompletions,
            "/v1/completions" => Endpoint::Completions,
            "/v1/responses" => Endpoint::Responses,
            "/v1/embeddings" => Endpoint::Embeddings,
            "/v1/messages" => Endpoint::Messages,
            "/v1/messages/count_tokens" => Endpoint::CountTokens,
            "/tokenize" | "/detokenize" => Endpoint::Tokenize,
            "/v1/models" => Endpoint::Models,
            other if other.starts_with("/v1/models/") => Endpoint::Models,
            _ => Endpoint::Other,
        }
    }

    /// Its word in logs.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Endpoint::ChatCompletions => "chat_completions",
            Endpoint::Completions => "completions",
            Endpoint::Responses => "responses",
            Endpoint::Embeddings => "embeddings",
            Endpoint::Messages => "messages",
            Endpoint::CountTokens => "count_tokens",
            Endpoint::Tokenize => "tokenize",
            Endpoint::Models => "models",
            Endpoint::Other => "other",
        }
    }

    /// Its path, without ids; none for an engine's own.
    #[must_use]
    pub fn route(self) -> Option<&'static str> {
        Some(match self {
            Endpoint::ChatCompletions => "/v1/chat/completions",
            Endpoint::Completions => "/v1/completions",
            Endpoint::Responses => "/v1/responses",
            Endpoint::Embeddings => "/v1/embeddings",
            Endpoint::Messages => "/v1/messages",
            Endpoint::CountTokens => "/v1/messages/count_tokens",
            Endpoint::Tokenize => "/tokenize",
            Endpoint::Models => "/v1/models",
            Endpoint::Other => return None,
        })
    }

    /// Whether bodies are not prompts and answers are not scanned: only the engine knows their
    /// contents.
    #[must_use]
    pub fn passes_unread(self) -> bool {
        matches!(self, Endpoint::CountTokens | Endpoint::Tokenize | Endpoint::Other)
    }

    /// Whether errors have Anthropic's form.
    pub(crate) fn is_anthropic(self) -> bool {
        matches!(self, Endpoint::Messages | Endpoint::CountTokens)
    }

    /// Whether the answer is generated token by token.
    #[must_use]
    pub fn is_generation(self) -> bool {
        use Endpoint::*;
        matches!(self, ChatCompletions | Completions | Responses | Messages)
    }

    /// Whether the body is not a prompt and may be anything.
    pub(crate) fn is_foreign(self) -> bool {
        self == Endpoint::Models || self.passes_unread()
    }

    /// Whether a stream reports usage only when `stream_options.include_usage` asks for it.
    pub(crate) fn usage_on_request(self) -> bool {
        matches!(self, Endpoint::ChatCompletions | Endpoint::Completions)
    }

    /// The field that holds the prompt.
    pub(crate) fn prompt_field(self) -> &'static str {
        match self {
            Endpoint::ChatCompletions | Endpoint::Messages => "messages",
            Endpoint::Completions => "prompt",
            _ => "input",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Paths as clients send them: with a query, with a trailing slash, and near misses.
    #[test]
    fn paths() {
        let table = [
            ("/v1/chat/completions", Endpoint::ChatCompletions),
            ("/v1/chat/completions?beta=true", Endpoint::ChatCompletions),
            ("/v1/completions/", Endpoint::Completions),
            ("/v1/responses", Endpoint::Responses),
            ("/v1/responses/resp_1", Endpoint::Other),
            ("/v1/embeddings", Endpoint::Embeddings),
            ("/v1/messages", Endpoint::Messages),
            ("/v1/messages/count_tokens", Endpoint::CountTokens),
            ("/v1/messages/count_tokens/", Endpoint::CountTokens),
            ("/v1/messages/batches", Endpoint::Other),
            ("/tokenize", Endpoint::Tokenize),
            ("/detokenize?x", Endpoint::Tokenize),
            ("/tokenizer", Endpoint::Other),
            ("/v1/models", Endpoint::Models),
            ("/v1/models/meta/llama", Endpoint::Models),
            ("/v1/modelsx", Endpoint::Other),
            ("", Endpoint::Other),
        ];
        for (path, endpoint) in table {
            assert_eq!(Endpoint::of(path), endpoint, "{path}");
            let route = endpoint.route().map(Endpoint::of);
            assert_eq!(route.unwrap_or_default(), endpoint, "{path}");
        }
    }
}
