//! Reads a request in one pass over its body, copying only small facts.

use bytes::Bytes;
use meridian_base::{Fingerprinter, Priority, keyed, mix};
use serde_json::value::RawValue;

use super::ask_usage::usage_asked;
use super::bad::BadRequest;
use super::billing;
use super::body::Body;
use super::elsewhere::{Elsewhere, Head};
use super::encoding::{may_be_json, utf8};
use super::endpoint::Endpoint;
use super::prompt::Writer;
use super::raw::{elements, kind, owned, string, truth};
use super::salt::SaltPlace;
use super::session;
use super::splice::{Purpose, Splice, Splices, offset};

/// How to fingerprint prompts: the same for every request of a fleet.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The fleet's secret.
    pub seed: u64,
    /// Bytes of a block, at least 1.
    pub block_bytes: usize,
    /// Bytes of the first user message that make the head.
    pub head_bytes: usize,
    /// The tenant, if tenants are kept apart.
    pub tenant_scope: Option<u64>,
    /// Whether streams are asked for the token count in each chunk.
    pub counts: bool,
}

/// Facts about a request that a gateway needs.
#[derive(Clone, Debug)]
pub struct RequestInfo {
    /// The model, or the adapter, as engines serve it.
    pub model: String,
    /// The name that the request has for it, if that is another one.
    pub alias: Option<String>,
    /// The path and the query with the model as engines serve it, if the request has an alias there.
    pub target: Option<String>,
    /// Whether the answer should be a stream of events.
    pub stream: bool,
    /// Whether the client itself asked for usage in the stream.
    pub include_usage: bool,
    /// Most tokens of each reply, if the request has a limit.
    pub max_tokens: Option<u32>,
    /// Number of requested replies, at least 1.
    pub replies: u32,
    /// The session, hashed: the first of `session_id`, `session_params.session_id` (or `.id`),
    /// `conversation` (or `.id`), `prompt_cache_key`, `user`, `metadata.user_id`.
    pub session: Option<u64>,
    /// The priority class that `service_tier` asks for, if it is not left to the server.
    pub tier: Option<Priority>,
    /// The response that this request continues. The request must go to the replica that produced
    /// it.
    pub previous_response_id: Option<String>,
    /// The head, hashed within the scope: the first bytes of the first user message, or of the
    /// prompt. KubeAI's key for consistent hashing.
    pub head: u64,
    /// The prompt's fingerprint. Cloned and extended by [`push_reply`](super::push_reply), it is
    /// the prefix of the next turn.
    pub fingerprint: Fingerprinter,
    /// Bytes of the prompt as fingerprinted; an image counts as 9.
    pub prompt_bytes: u64,
    /// Changes to the body on its way to a replica.
    pub splices: Splices,
    /// The client's own salt for the engine's cache.
    pub cache_salt: Option<String>,
    /// Where a salt goes. `None` on paths outside the API.
    pub(super) salt_place: Option<SaltPlace>,
    /// Whether each chunk will contain the token count so far without the client having asked.
    pub counts: bool,
}

/// Reads the body of a request to `endpoint`. On paths whose [bodies are not
/// prompts](Endpoint::passes_unread), it refuses only a body that an engine might read as JSON but
/// the gateway cannot. In any other unreadable body, the facts stay empty.
///
/// # Errors
/// A body that the engine could not read either, with the field and the remedy.
pub fn read(endpoint: Endpoint, body: &[u8], reading: &Reading) -> Result<RequestInfo, BadRequest> {
    read_as((endpoint, Head::default()), body, reading, |_| None)
}

/// The same, where engines serve the models under other names: `served` maps a request's name of a
/// model to theirs, or to none if they are equal, and an empty name to the only model there is. A
/// splice puts it into the body. The facts are those of a request with the engines' name, so it
/// shares prefixes with the requests that use it.
///
/// # Errors
/// See [`read`].
pub fn read_as<'s>(
    (endpoint, head): (Endpoint, Head<'_>),
    body: &[u8],
    reading: &Reading,
    served: impl Fn(&str) -> Option<&'s str>,
) -> Result<RequestInfo, BadRequest> {
    if endpoint.is_foreign() {
        let info = foreign(endpoint, body, reading, &served)?;
        return Ok(match info.model.is_empty() {
            true => named_elsewhere(info, &head, body, served)?,
            false => info,
        });
    }
    if body.is_empty() {
        let what = format!(
            "the body is empty: send a JSON object with `model` and `{}`",
            endpoint.prompt_field()
        );
        return Err(BadRequest::new(None, what));
    }
    let json = utf8(body)?;
    let parsed = Body::parse(endpoint, json)?;
    if parsed.get("model").is_some_and(|raw| string(raw) != Some(b"")) {
        return facts(endpoint, json, &parsed, reading, served);
    }
    // The query may have it, or there is no choice. A splice adds it.
    let found = Elsewhere::find(&head, body)?.map(|found| found.model);
    let named = found.as_deref().unwrap_or_default();
    let model = served(named).unwrap_or(named);
    if model.is_empty() {
        return Err(BadRequest::missing("model", "the name of a model of /v1/models"));
    }
    let info = facts(endpoint, json, &parsed, reading, |_| Some(model))?;
    let alias = found.clone().filter(|found| found != model);
    Ok(RequestInfo { alias, ..info })
}

/// The facts about the body of a path whose bodies are not prompts.
fn foreign<'s>(
    endpoint: Endpoint,
    body: &[u8],
    reading: &Reading,
    served: impl Fn(&str) -> Option<&'s str>,
) -> Result<RequestInfo, BadRequest> {
    if !may_be_json(body) {
        return Ok(nothing(reading, Splices::default()));
    }
    let json = utf8(body)?;
    let body = Body::parse(endpoint, json)?;
    Ok(facts(endpoint, json, &body, reading, &served).unwrap_or_else(|_| {
        // Another field that only the engine understands takes nothing from its model.
        let mut info = nothing(reading, body.cuts.clone());
        let model = text(&body, "model").ok().flatten().unwrap_or_default();
        let is_other = |served: &&str| !model.is_empty() && *served != model;
        match served(&model).filter(is_other) {
            Some(served) => {
                info.splices.push(named(json, &body, served));
                (info.model, info.alias) = (served.to_owned(), Some(model));
            }
            None => info.model = model,
        }
        info
    }))
}

/// Adds the model that a request names outside of JSON.
fn named_elsewhere<'s>(
    mut info: RequestInfo,
    head: &Head<'_>,
    body: &[u8],
    served: impl Fn(&str) -> Option<&'s str>,
) -> Result<RequestInfo, BadRequest> {
    let Some(found) = Elsewhere::find(head, body)? else { return Ok(info) };
    match served(&found.model).filter(|served| *served != found.model) {
        None => info.model = found.model,
        Some(served) => {
            match found.renamed(head, served) {
                Ok(splice) => info.splices.push(splice),
                Err(target) => info.target = Some(target),
            }
            info.model = served.to_owned();
            info.alias = Some(found.model);
        }
    }
    Ok(info)
}

fn facts<'s>(
    endpoint: Endpoint,
    json: &str,
    body: &Body<'_>,
    reading: &Reading,
    served: impl Fn(&str) -> Option<&'s str>,
) -> Result<RequestInfo, BadRequest> {
    let lenient = endpoint.is_foreign();
    let model = text(body, "model")?.unwrap_or_default();
    // On other paths than the API's, any replica may do for a request without one.
    let known = |model: &str| if lenient && model.is_empty() { None } else { served(model) };
    let (model, alias) = match known(&model).filter(|served| *served != model) {
        Some(served) => (served.to_owned(), Some(model)),
        None => (model, None),
    };
    let stream = flag(body, "stream")?;
    let asked = usage_asked(json, body, reading.counts)?;
    // SGLang takes a list, with a salt for each prompt.
    let cache_salt = match body.get("cache_salt").filter(|salt| kind(salt) == "an array") {
        Some(salts) => Some(salts.get().to_owned()),
        None => text(body, "cache_salt")?,
    };
    let scope = scope(&model, cache_salt.as_deref(), reading);
    let fingerprint = Fingerprinter::new(reading.seed, scope, reading.block_bytes.max(1));
    let mut splices = body.cuts.clone();
    let billing = body.get("system").filter(|_| endpoint == Endpoint::Messages);
    let billing = billing.and_then(|system| billing::line(json, system));
    let billing = billing.filter(|cut| splices.leave(cut));
    let mut writer = Writer::new(fingerprint, reading.head_bytes, reading.seed);
    writer.is_billed = billing.is_some();
    if !lenient {
        writer.fingerprint.reserve(json.len());
        writer.prompt(endpoint, body)?;
    }
    let usage = asked.splice.filter(|_| stream && endpoint.usage_on_request());
    let counts = asked.counts && usage.is_some();
    let name = alias.is_some().then(|| named(json, body, &model));
    usage.into_iter().chain(name).chain(billing).for_each(|splice| splices.push(splice));
    Ok(RequestInfo {
        stream,
        include_usage: asked.include_usage,
        max_tokens: max_tokens(endpoint, body)?,
        replies: replies(endpoint, body)?,
        session: session::session(body, reading.seed),
        tier: session::tier(body),
        previous_response_id: text(body, "previous_response_id")?,
        head: mix(scope, keyed(reading.seed, &writer.head)),
        prompt_bytes: writer.fingerprint.bytes(),
        fingerprint: writer.fingerprint,
        counts,
        splices,
        cache_salt,
        salt_place: (!lenient).then(|| SaltPlace::of(json, body)),
        model,
        alias,
        target: None,
    })
}

/// The splice that puts `model` in place of the body's name of it, or adds it.
fn named(json: &str, body: &Body<'_>, model: &str) -> Splice {
    let name = serde_json::to_string(model).expect("a string always serializes");
    let (at, remove, insert) = match body.raw("model") {
        Some(value) => (offset(json, value), value.get().len(), name),
        // The object has the prompt, too.
        None => (json.find('{').unwrap_or_default() + 1, 0, format!("\"model\":{name},")),
    };
    Splice { purpose: Purpose::Model, at, remove, insert: Bytes::from(insert) }
}

/// The facts about a body that is not read.
fn nothing(reading: &Reading, cuts: Splices) -> RequestInfo {
    let scope = scope("", None, reading);
    RequestInfo {
        model: String::new(),
        alias: None,
        target: None,
        stream: false,
        include_usage: false,
        max_tokens: None,
        replies: 1,
        session: None,
        tier: None,
        previous_response_id: None,
        head: mix(scope, keyed(reading.seed, b"")),
        fingerprint: Fingerprinter::new(reading.seed, scope, reading.block_bytes.max(1)),
        prompt_bytes: 0,
        splices: cuts,
        cache_salt: None,
        salt_place: None,
        counts: false,
    }
}

/// Prompts of different models, salts or tenants share no block.
fn scope(model: &str, salt: Option<&str>, reading: &Reading) -> u64 {
    let mut scope = keyed(reading.seed, model.as_bytes());
    if let Some(salt) = salt {
        scope = mix(mix(scope, 1), keyed(reading.seed, salt.as_bytes()));
    }
    if let Some(tenant) = reading.tenant_scope {
        scope = mix(mix(scope, 2), tenant);
    }
    scope
}

fn text(body: &Body<'_>, name: &'static str) -> Result<Option<String>, BadRequest> {
    let Some(raw) = body.get(name) else { return Ok(None) };
    match owned(raw) {
        Some(text) if text.is_empty() => Ok(None),
        Some(text) => Ok(Some(text)),
        None => Err(BadRequest::kind(name, kind(raw), "a string")),
    }
}

fn flag(body: &Body<'_>, name: &'static str) -> Result<bool, BadRequest> {
    let Some(raw) = body.get(name) else { return Ok(false) };
    truth(raw).ok_or_else(|| BadRequest::kind(name, kind(raw), "true or false"))
}

/// The largest limit in the endpoint's fields: which of two an engine reads varies. Some engines
/// take negative limits for none.
fn max_tokens(endpoint: Endpoint, body: &Body<'_>) -> Result<Option<u32>, BadRequest> {
    let names: &[&'static str] = match endpoint {
        Endpoint::ChatCompletions => &["max_completion_tokens", "max_tokens"],
        Endpoint::Completions | Endpoint::Messages => &["max_tokens"],
        Endpoint::Responses => &["max_output_tokens"],
        _ => &[],
    };
    let mut most = None;
    for name in names {
        let Some(bound) = number(body, name)? else { continue };
        if bound < 0.0 {
            return Ok(None);
        }
        most = most.max(Some(bound as u32));
    }
    Ok(most)
}

/// How many replies are generated: `n` or `best_of`, for each prompt of a list.
fn replies(endpoint: Endpoint, body: &Body<'_>) -> Result<u32, BadRequest> {
    let (names, prompts): (&[&'static str], u32) = match endpoint {
        Endpoint::ChatCompletions => (&["n"], 1),
        Endpoint::Completions => (&["n", "best_of"], prompts(body.get("prompt"))?),
        _ => (&[], 1),
    };
    let mut each = 1;
    for name in names {
        each = each.max(number(body, name)?.unwrap_or(1.0) as u32);
    }
    Ok(each.saturating_mul(prompts))
}

/// The prompts of a completion: several if they are a list of texts or of lists of tokens, one if
/// there are token ids in it.
pub(super) fn prompts(prompt: Option<&RawValue>) -> Result<u32, BadRequest> {
    let Some(raw) = prompt.filter(|raw| kind(raw) == "an array") else { return Ok(1) };
    let (mut count, mut mixed) = (0_u32, false);
    elements(raw, "prompt", |prompt| {
        let is_id = kind(prompt) == "a number";
        mixed |= is_id;
        count += u32::from(!is_id);
        Ok(())
    })?;
    Ok(if mixed { 1 } else { count.max(1) })
}

/// A number, also as text, which the engines in Python read as one.
fn number(body: &Body<'_>, name: &'static str) -> Result<Option<f64>, BadRequest> {
    let Some(raw) = body.get(name) else { return Ok(None) };
    let text = string(raw).and_then(|text| std::str::from_utf8(text).ok());
    match text.map_or(raw.get(), str::trim_ascii).parse::<f64>() {
        Ok(number) if number.is_finite() || text.is_none() => Ok(Some(number)),
        _ => Err(BadRequest::kind(name, kind(raw), "a whole number")),
    }
}
