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
    /// `/tokenize` and `/detokenize` of engines, also under `/v1`; only the model is read from the body
    Tokenize,
    /// A call of engines that leaves no state, one of [`STATELESS`]; only the model is read from the
    /// body, which may be a form
    Stateless(&'static str),
    /// `/v1/responses/{id}`, and `/cancel` or `/input_items` below it: a stored response
    StoredResponse,
    /// `/v1/models` and `/v1/models/{id}`
    Models,
    /// Any other path, an engine's own: only the engines' private fields are removed from its body.
    #[default]
    Other,
}

/// Paths of engines that name a model and leave no state: sound, images, ranking, classification, what
/// vLLM and llama.cpp count, and the tokens that vLLM renders of a prompt.
pub const STATELESS: [&str; 29] = [
    "/v1/audio/transcriptions",
    "/v1/audio/translations",
    "/v1/audio/speech",
    "/v1/images/generations",
    "/v1/images/edits",
    "/v1/images/variations",
    "/v1/moderations",
    "/v1/responses/input_tokens",
    "/v1/responses/compact",
    "/v1/chat/completions/input_tokens",
    "/v1/chat/completions/render",
    "/v1/chat/completions/derender",
    "/v1/completions/render",
    "/v1/completions/derender",
    "/v1/messages/render",
    "/v1/responses/render",
    "/rerank",
    "/v1/rerank",
    "/v2/rerank",
    "/reranking",
    "/v1/reranking",
    "/score",
    "/v1/score",
    "/classify",
    "/v1/classify",
    "/pooling",
    "/v1/pooling",
    "/v2/embed",
    "/v1/embed",
];

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
            "/tokenize" | "/detokenize" | "/v1/tokenize" | "/v1/detokenize" => Endpoint::Tokenize,
            "/v1/models" => Endpoint::Models,
            other if other.starts_with("/v1/models/") => Endpoint::Models,
            other => match STATELESS.iter().find(|path| **path == other) {
                Some(path) => Endpoint::Stateless(path),
                None if stored_response(other).is_some() => Endpoint::StoredResponse,
                None => Endpoint::Other,
            },
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
            Endpoint::Stateless(_) => "stateless",
            Endpoint::StoredResponse => "stored_response",
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
            Endpoint::Stateless(path) => path,
            Endpoint::StoredResponse => "/v1/responses/{id}",
            Endpoint::Models => "/v1/models",
            Endpoint::Other => return None,
        })
    }

    /// Whether bodies are not prompts and answers are not scanned: only the engine knows their
    /// contents.
    #[must_use]
    pub fn passes_unread(self) -> bool {
        use Endpoint::*;
        matches!(self, CountTokens | Tokenize | Stateless(_) | StoredResponse | Other)
    }

    /// The methods of a path, in the form of the header `allow`; none if it may have any.
    #[must_use]
    pub fn methods(self, path: &str) -> Option<&'static str> {
        match self {
            Endpoint::Other => None,
            Endpoint::Models => Some("GET, HEAD"),
            Endpoint::StoredResponse => Some(match stored_response(path) {
                Some((_, "/cancel")) => "POST",
                Some((_, "/input_items")) => "GET",
                _ => "GET, DELETE",
            }),
            _ => Some("POST"),
        }
    }

    /// Whether errors have Anthropic's form.
    #[must_use]
    pub fn is_anthropic(self) -> bool {
        matches!(
            self,
            Endpoint::Messages | Endpoint::CountTokens | Endpoint::Stateless("/v1/messages/render")
        )
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

    /// Whether the prompt may be messages: vLLM also embeds them.
    pub(crate) fn may_have_messages(self) -> bool {
        matches!(self, Endpoint::ChatCompletions | Endpoint::Messages | Endpoint::Embeddings)
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

/// The id of the stored response that a path names, and the rest of the path.
#[must_use]
pub fn stored_response(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix("/v1/responses/")?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (id, call) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let is_id =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '{' | '}');
    let named = !id.is_empty() && !id.starts_with('.') && id.chars().all(is_id);
    (named && matches!(call, "" | "/cancel" | "/input_items")).then_some((id, call))
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
            ("/v1/responses/resp_1", Endpoint::StoredResponse),
            ("/v1/responses/resp_1/?stream=true", Endpoint::StoredResponse),
            ("/v1/responses/resp_1/cancel", Endpoint::StoredResponse),
            ("/v1/responses/resp_1/input_items?limit=1", Endpoint::StoredResponse),
            ("/v1/responses/resp_1/other", Endpoint::Other),
            ("/v1/responses/../cancel", Endpoint::Other),
            ("/v1/responses/a%2Fb", Endpoint::Other),
            ("/v1/responses/compact", Endpoint::Stateless("/v1/responses/compact")),
            ("/v1/chat/completions/render", Endpoint::Stateless("/v1/chat/completions/render")),
            ("/v1/chat/completions/chatcmpl-1", Endpoint::Other),
            ("/v1/audio/speech", Endpoint::Stateless("/v1/audio/speech")),
            ("/v1/audio/speech/x", Endpoint::Other),
            ("/rerank/", Endpoint::Stateless("/rerank")),
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
