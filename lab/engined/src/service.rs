//! Maps paths to answers.

use crate::Error;
use crate::adapters::{Adapters, Refused};
use crate::api::{self, BadRequest, Common};
use crate::body::ReplyBody;
use crate::chat::{Completion, Failure, Server};
use crate::clock::{Clock, unix_time};
use crate::faults::{self, EngineFault, Fate, Faults};
use crate::kv::{self, Legs, Params};
use crate::metrics::Metrics;
use crate::options::Options;
use crate::orca::{self, Form};
use crate::pump::{Command, Pump};
use crate::render::{self, RenderKind};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, SERVER};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Body;
use meridian_engine::{Engine, Refusal, Stats};
use serde_json::json;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

/// The API of one engine without sockets: clones share the engine.
#[derive(Clone, Debug)]
pub struct Service {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: Options,
    server: HeaderValue,
    created: u64,
    numbers: AtomicU64,
    commands: mpsc::UnboundedSender<Command>,
    faults: Faults,
    kv: Option<SideChannel>,
    /// Present with [`Options::max_loras`].
    adapters: Option<Adapters>,
}

/// The transfer of KV, if there is one.
#[derive(Debug)]
struct SideChannel {
    shared: Arc<kv::Shared>,
    address: SocketAddr,
    /// Dropped with the service, it ends the side channel.
    _alive: watch::Sender<()>,
}

/// A request names a model that is not here.
struct UnknownModel;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// The paths of vLLM's requests about adapters, and the largest body of one and of one that sets a fault.
const LOAD_ADAPTER: &str = "/v1/load_lora_adapter";
const UNLOAD_ADAPTER: &str = "/v1/unload_lora_adapter";
const MOST_SMALL_BODY: usize = 64 << 10;
/// The most adapters that an error names.
const MOST_NAMED: usize = 8;
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream; charset=utf-8");
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

impl Service {
    /// Starts the engine's task on the current runtime. It ends when the last clone is dropped.
    ///
    /// # Errors
    /// If the options are inconsistent.
    pub fn start(options: Options) -> Result<Service, Error> {
        if !(options.time_scale.is_finite() && options.time_scale > 0.0) {
            return Err(Error::TimeScale(options.time_scale));
        }
        let server = HeaderValue::try_from(options.name.as_str())
            .map_err(|_| Error::Name(options.name.clone()))?;
        let stages = options.stages.clone();
        let engine = Engine::staged(options.engine, stages, options.seed)?;
        let clock = Clock::new(options.time_scale);
        let (commands, receiver) = mpsc::unbounded_channel();
        let kv = SideChannel::open(&options, clock, &commands)?;
        let legs = kv.as_ref().map(|kv| Legs::new(kv.shared.clone()));
        let metrics = Metrics::new(&options.served_model, engine.config(), options.max_loras);
        let pump = Pump::new(engine, clock, metrics, legs, commands.downgrade());
        tokio::spawn(pump.run(receiver));
        let created = unix_time().as_secs();
        let numbers = AtomicU64::new(1);
        let adapters = options.max_loras.map(|_| Adapters::default());
        let faults = Faults::default();
        let shared = Shared { options, server, created, numbers, commands, faults, kv, adapters };
        Ok(Service { shared: Arc::new(shared) })
    }

    /// The address of the side channel, if the engine transfers KV.
    #[must_use]
    pub fn side_channel(&self) -> Option<SocketAddr> {
        self.shared.kv.as_ref().map(|kv| kv.address)
    }

    pub(crate) fn options(&self) -> &Options {
        &self.shared.options
    }

    /// Whether a connection ends without an answer to this request, the first of which is 0.
    pub(crate) fn closes(&self, nth: u32) -> bool {
        self.shared.faults.closes(nth)
    }

    /// Answers one request.
    pub async fn handle<B>(&self, request: Request<B>) -> Response<ReplyBody>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let form = Form::asked(request.headers());
        let mut response = self.route(request).await;
        if let Some(form) = form
            && let Some(stats) = self.load().await
        {
            response.headers_mut().insert(orca::RESPONSE_HEADER, form.render(&stats));
        }
        response.headers_mut().insert(SERVER, self.shared.server.clone());
        response
    }

    async fn route<B>(&self, request: Request<B>) -> Response<ReplyBody>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (head, body) = request.into_parts();
        match (&head.method, head.uri.path()) {
            (&Method::GET, "/health" | "/ping") if self.shared.commands.is_closed() => {
                failure(StatusCode::SERVICE_UNAVAILABLE, "the engine has stopped: restart it")
            }
            (&Method::GET, "/health" | "/ping") => answer(JSON, Bytes::new()),
            (&Method::GET, "/metrics") => self.metrics().await,
            (&Method::GET, "/v1/models") => answer(JSON, self.models()),
            (&Method::GET, "/version") => {
                answer(JSON, json!({"version": env!("CARGO_PKG_VERSION")}).to_string())
            }
            (
                &Method::POST,
                path @ ("/v1/chat/completions" | "/v1/completions" | "/v1/embeddings"),
            ) => {
                let limit = self.shared.options.max_body;
                let Ok(body) = Limited::new(body, limit).collect().await else {
                    let message = format!("the body is unreadable or larger than {limit} bytes");
                    return failure(StatusCode::PAYLOAD_TOO_LARGE, &message);
                };
                if self.shared.options.log_requests {
                    note(&head.headers);
                }
                self.post(path, &head.headers, &body.to_bytes()).await
            }
            (&Method::POST, path @ (LOAD_ADAPTER | UNLOAD_ADAPTER))
                if self.shared.adapters.is_some() =>
            {
                match Limited::new(body, MOST_SMALL_BODY).collect().await {
                    Ok(body) => self.adapter(path == LOAD_ADAPTER, &body.to_bytes()),
                    Err(_) => failure(StatusCode::PAYLOAD_TOO_LARGE, "the body is unreadable"),
                }
            }
            (&Method::POST, faults::PATH) => {
                match Limited::new(body, MOST_SMALL_BODY).collect().await {
                    Ok(body) => self.fault(&body.to_bytes()),
                    Err(_) => failure(StatusCode::PAYLOAD_TOO_LARGE, "the body is unreadable"),
                }
            }
            (
                _,
                "/health"
                | "/ping"
                | "/metrics"
                | "/v1/models"
                | "/version"
                | "/v1/chat/completions"
                | "/v1/completions"
                | "/v1/embeddings",
            ) => failure(StatusCode::METHOD_NOT_ALLOWED, "this path does not take this method"),
            _ => failure(StatusCode::NOT_FOUND, "no such path: see /v1/models for what is served"),
        }
    }

    /// Sets a fault, or ends it.
    fn fault(&self, body: &[u8]) -> Response<ReplyBody> {
        let fault = match serde_json::from_slice::<faults::Set>(body) {
            Ok(set) => set.fault,
            Err(error) => return failure(StatusCode::BAD_REQUEST, &error.to_string()),
        };
        self.shared.faults.set(fault);
        // Without a pump nothing makes progress anyway.
        let _ = self.shared.commands.send(Command::Stall(fault == Some(EngineFault::Stall)));
        answer(JSON, Bytes::from_static(b"{}"))
    }

    async fn post(&self, path: &str, headers: &HeaderMap, body: &[u8]) -> Response<ReplyBody> {
        let request = match api::parse(body) {
            Ok(request) => request,
            Err(message) => return failure(StatusCode::BAD_REQUEST, &message),
        };
        let fails_after = match self.shared.faults.next() {
            Fate::Well => None,
            Fate::Failed => return internal(StatusCode::INTERNAL_SERVER_ERROR),
            Fate::ToldAfter(tokens) if request.stream == Some(true) => Some(tokens),
            Fate::Told | Fate::ToldAfter(_) => return told(request.stream == Some(true)),
        };
        let params = match &self.shared.kv {
            Some(_) => Params::read(request.kv_transfer_params.as_ref()),
            None => Ok(Params::Absent),
        };
        let params = match params {
            Ok(params) => params,
            Err(message) => return failure(StatusCode::BAD_REQUEST, &message),
        };
        let Ok(adapter) = self.adapter_of(&request) else {
            self.reject(params);
            let message =
                format!("the model does not exist here: this engine serves {}", self.served());
            let error = render::error_at(404, "NotFoundError", &message, Some("model"));
            let mut response = answer(JSON, error);
            *response.status_mut() = StatusCode::NOT_FOUND;
            return response;
        };
        let kind = match path {
            "/v1/embeddings" => return self.embedding(&request),
            "/v1/completions" => RenderKind::Text,
            _ => RenderKind::Chat,
        };
        let left = kv::left(headers, request.kv_transfer_params.as_ref());
        let due = left.and_then(|left| Instant::now().checked_add(left));
        let mut completion = match self.completion(kind, &request, adapter, params.clone(), due) {
            Ok(completion) => completion,
            Err(message) => {
                self.reject(params);
                return failure(StatusCode::BAD_REQUEST, &message);
            }
        };
        completion.fails_after = fails_after;
        self.run(completion).await
    }

    /// A decode leg is refused before the engine has seen it: the engine that holds its blocks gets
    /// their release.
    fn reject(&self, params: Params) {
        if let (Some(kv), Params::Decode(remote)) = (&self.shared.kv, params) {
            let shared = kv.shared.clone();
            tokio::spawn(async move { shared.free(&remote).await });
        }
    }

    async fn run(&self, completion: Completion) -> Response<ReplyBody> {
        let kind = if completion.is_stream() { EVENTS } else { JSON };
        match completion.run(&self.shared.commands).await {
            Ok(body) => {
                let mut response = Response::new(body);
                if kind == EVENTS {
                    let value = HeaderValue::from_static("no-cache");
                    response.headers_mut().insert(CACHE_CONTROL, value);
                }
                response.headers_mut().insert(CONTENT_TYPE, kind);
                response
            }
            Err(Failure::Closed) => {
                failure(StatusCode::SERVICE_UNAVAILABLE, "the engine is shutting down")
            }
            Err(Failure::Kv) => internal(StatusCode::INTERNAL_SERVER_ERROR),
            Err(Failure::Refused(why @ Refusal::Full { .. })) => {
                failure(StatusCode::SERVICE_UNAVAILABLE, &why.to_string())
            }
            Err(Failure::Refused(why)) => failure(StatusCode::BAD_REQUEST, &why.to_string()),
        }
    }

    fn completion(
        &self,
        kind: RenderKind,
        request: &Common<'_>,
        adapter: Option<Arc<str>>,
        params: Params,
        due: Option<Instant>,
    ) -> Result<Completion, BadRequest> {
        let scope = adapter.as_deref();
        let prompt = match kind {
            RenderKind::Chat => request.chat_prompt(scope)?,
            RenderKind::Text => request.text_prompt("prompt", scope)?,
        };
        let options = &self.shared.options;
        let server = Server {
            number: self.shared.numbers.fetch_add(1, Ordering::Relaxed),
            seed: options.seed,
            created: self.shared.created,
            max_model_len: options.engine.max_model_len,
            due,
        };
        let model = scope.unwrap_or(&options.served_model);
        Ok(Completion::new(kind, request, prompt, model, params, server)?.with(adapter))
    }

    /// A fixed vector: enough to test a gateway, without meaning.
    fn embedding(&self, request: &Common<'_>) -> Response<ReplyBody> {
        let prompt = match request.text_prompt("input", None) {
            Ok(prompt) => prompt,
            Err(message) => return failure(StatusCode::BAD_REQUEST, &message),
        };
        let tokens = prompt.tokens();
        let body = json!({
            "object": "list", "model": self.shared.options.served_model,
            "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -0.5, 0.5, -0.5]}],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        });
        answer(JSON, body.to_string())
    }

    fn models(&self) -> String {
        let options = &self.shared.options;
        let model = json!({
            "id": options.served_model, "object": "model", "created": self.shared.created,
            "owned_by": "vllm", "root": options.engine.profile.model.name, "parent": null,
            "max_model_len": options.engine.max_model_len,
        });
        let adapters = self.shared.adapters.as_ref().map(Adapters::all).unwrap_or_default();
        let adapters = adapters.into_iter().map(|adapter| {
            json!({
                "id": &*adapter.name, "object": "model", "created": adapter.created,
                "owned_by": "vllm", "root": adapter.path, "parent": options.served_model,
                "max_model_len": null,
            })
        });
        let data: Vec<_> = std::iter::once(model).chain(adapters).collect();
        json!({"object": "list", "data": data}).to_string()
    }

    /// The names of the model and of its first adapters. The name in a request is left out: it may
    /// be anything.
    fn served(&self) -> String {
        let adapters = self.shared.adapters.as_ref().map(Adapters::all).unwrap_or_default();
        let mut served = self.shared.options.served_model.clone();
        for adapter in adapters.iter().take(MOST_NAMED) {
            served.push_str(", ");
            served.push_str(&adapter.name);
        }
        if let Some(more @ 1..) = adapters.len().checked_sub(MOST_NAMED) {
            served.push_str(&format!(" and {more} more"));
        }
        served
    }

    /// The adapter that a request names; none for the base model.
    fn adapter_of(&self, request: &Common<'_>) -> Result<Option<Arc<str>>, UnknownModel> {
        let Shared { options, adapters, .. } = &*self.shared;
        let model = request.model.as_deref().filter(|model| *model != options.served_model);
        let Some(model) = model else { return Ok(None) };
        let adapter = adapters.as_ref().and_then(|adapters| adapters.named(model));
        adapter.map(Some).ok_or(UnknownModel)
    }

    /// Loads or unloads an adapter.
    fn adapter(&self, loads: bool, body: &[u8]) -> Response<ReplyBody> {
        let Some(adapters) = &self.shared.adapters else {
            return failure(StatusCode::NOT_FOUND, "this engine has no adapters");
        };
        let base = &self.shared.options.served_model;
        let done = match loads {
            true => adapters.load(body, base, unix_time().as_secs()),
            false => adapters.unload(body),
        };
        let (kind, message) = match done {
            Ok(message) => return answer(TEXT, message),
            Err(Refused::Unknown(message)) => return failure(StatusCode::NOT_FOUND, &message),
            Err(Refused::Input(message)) => ("InvalidUserInput", message),
            Err(Refused::Body(message)) => ("Bad Request", message),
        };
        let mut response = answer(JSON, render::error(400, kind, &message));
        *response.status_mut() = StatusCode::BAD_REQUEST;
        response
    }

    async fn metrics(&self) -> Response<ReplyBody> {
        let (sender, receiver) = oneshot::channel();
        let sent = self.shared.commands.send(Command::Metrics(sender));
        match (sent, receiver.await) {
            (Ok(()), Ok(page)) => answer(METRICS, page),
            _ => failure(StatusCode::SERVICE_UNAVAILABLE, "the engine is shutting down"),
        }
    }

    async fn load(&self) -> Option<Stats> {
        let (sender, receiver) = oneshot::channel();
        self.shared.commands.send(Command::Load(sender)).ok()?;
        receiver.await.ok()
    }
}

impl SideChannel {
    fn open(
        options: &Options,
        clock: Clock,
        commands: &mpsc::UnboundedSender<Command>,
    ) -> Result<Option<SideChannel>, Error> {
        let Some(transfer) = &options.transfer else { return Ok(None) };
        transfer.validate()?;
        let address = transfer.side_channel;
        let listen = |source| Error::Listen { address, source };
        let (listener, address) = transfer.network.listen(address).map_err(listen)?;
        let profile = &options.engine.profile;
        let named = transfer.announce.unwrap_or(address);
        let name = &options.name;
        let shared = Arc::new(kv::Shared::new(transfer, (name, named), profile, clock)?);
        let (alive, watched) = watch::channel(());
        tokio::spawn(kv::listen(listener, shared.clone(), commands.downgrade(), watched));
        Ok(Some(SideChannel { shared, address, _alive: alive }))
    }
}

/// Writes a request's id in one piece, so that it is in the log before the engine handles the
/// request.
fn note(headers: &HeaderMap) {
    let id = headers.get("x-request-id").and_then(|id| id.to_str().ok()).unwrap_or("-");
    let line = format!("received request {id}\n");
    // Requests are served even if the log can't be written.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

fn answer(kind: HeaderValue, body: impl Into<Bytes>) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::whole(body));
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// An internal error under this status.
fn internal(status: StatusCode) -> Response<ReplyBody> {
    let mut response = answer(JSON, render::internal_error());
    *response.status_mut() = status;
    response
}

/// An internal error inside a 200.
fn told(stream: bool) -> Response<ReplyBody> {
    if stream { answer(EVENTS, render::internal_error_event()) } else { internal(StatusCode::OK) }
}

/// An error answer; vLLM's error type for the status.
fn failure(status: StatusCode, message: &str) -> Response<ReplyBody> {
    let kind = match status {
        StatusCode::NOT_FOUND => "NotFoundError",
        StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailableError",
        _ => "BadRequestError",
    };
    let mut response = answer(JSON, render::error(status.as_u16(), kind, message));
    *response.status_mut() = status;
    response
}
