//! Answers one request of a client or a peer: refuses it by its head, lists the models, or admits
//! it.

use std::sync::Arc;
use std::time::Instant;

use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use meridian_config::Gateway as Config;
use meridian_protocol::openai::{self, Endpoint};
use meridian_protocol::peer::Marks;

use crate::facts::DONE;
use crate::http::{head, headers};
use crate::inputs::in_force::InForce;
use crate::inputs::rate::Rates;
use crate::peers::all::Peers;
use crate::peers::inbound::{Forwarded, Forwards};
use crate::record::Recording;
use crate::refusal::{Refusal, json};
use crate::replicas::fleet::Fleet;
use crate::replicas::model_list::model_list;
use crate::replicas::upstream::Upstream;
use crate::request::answer::body::AnswerBody;
use crate::request::answer::keep_alive::{Waiting, kept_alive};
use crate::request::answer::respond::{answered, unanswered};
use crate::request::arrive::admit::Admitted;
use crate::request::arrive::fallback::{self, Run};
use crate::request::arrive::origin::{Origin, identify};
use crate::request::context::RequestContext;
use crate::request::plane::DataPlane;
use crate::request::send::Attempts;
use crate::settings::Settings;

/// The request path of one thread.
pub(crate) struct Requests {
    pub(crate) attempts: Arc<Attempts>,
}

impl Forwards for Arc<Requests> {
    type Body = AnswerBody;

    fn header_bytes(&self) -> usize {
        self.plane().inputs.config.now().settings.head_bytes
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        forwarded: Forwarded,
    ) -> Response<AnswerBody> {
        let Forwarded { marks, report, from } = forwarded;
        Requests::answer(self, request, Origin::Peer { marks, report, from }).await
    }
}

impl Requests {
    /// The path of a thread with its own connections to replicas of this region.
    pub(crate) fn new(plane: &Arc<DataPlane>, near: Upstream) -> Requests {
        Requests { attempts: Arc::new(Attempts { plane: plane.clone(), near }) }
    }

    pub(crate) fn plane(&self) -> &DataPlane {
        &self.attempts.plane
    }

    /// Answers one request in every case.
    pub(crate) async fn answer(
        &self,
        mut request: Request<Incoming>,
        origin: Origin,
    ) -> Response<AnswerBody> {
        if origin.is_client() {
            Marks::strip(request.headers_mut());
        }
        let shown_id = request.headers().get(headers::REQUEST_ID).cloned();
        let endpoint = Endpoint::of(request.uri().path());
        let plane = self.plane();
        let in_force = plane.inputs.config.now();
        let traces = in_force.traces.as_ref();
        let trace = traces.and_then(|to| plane.records.trace_ids.join(to, request.headers_mut()));
        let (metrics, records) = (&plane.metrics.requests, &plane.records);
        let mut recording = Recording::begin(metrics, records, endpoint, origin.is_client(), trace);
        recording.note(|record| {
            record.id.clone_from(&shown_id);
            record.hops = origin.hops();
            record.times.method.clone_from(request.method());
        });
        let mut rates = None;
        let result =
            self.serve(&in_force, request, endpoint, origin, (&mut recording, &mut rates)).await;
        let response = result.unwrap_or_else(|refusal| {
            let refusal = charged(rates.as_deref(), refusal);
            plane.metrics.refused(&refusal);
            // An admitted request has an id by now; one that is refused gets it here.
            let id = shown_id.unwrap_or_else(|| headers::own_id(&plane.ids, plane.ids.next()));
            recording.note(|record| record.id = Some(id.clone()));
            end_refused(&mut recording, &refusal);
            with_id(refusal.response(endpoint), id)
        });
        named_for(endpoint, response)
    }

    /// Serves a request. `rates` become those of its sender, once that is known.
    ///
    /// One function from here to the machine: each layer of futures would keep the request twice.
    async fn serve(
        &self,
        in_force: &Arc<InForce>,
        mut request: Request<Incoming>,
        endpoint: Endpoint,
        origin: Origin,
        (recording, rates): (&mut Recording, &mut Option<Arc<Rates>>),
    ) -> Result<Response<AnswerBody>, Refusal> {
        if origin.is_client() {
            head::check(&request)?;
        }
        let tenant_header = in_force.settings.tenant_header.as_ref();
        let caller = identify(tenant_header, in_force, request.headers_mut(), &origin)?;
        recording.note(|record| {
            record.tenant.clone_from(&caller.tenant);
            record.is_tenant_known = caller.is_known;
            record.priority = Some(caller.priority);
        });
        rates.clone_from(&caller.rates);
        let (plane, settings) = (self.plane(), &in_force.settings);
        let path = request.uri().path();
        match allowed(endpoint, request.method(), path, settings) {
            Err(refusal) => return Err(refusal),
            Ok(()) if endpoint == Endpoint::Models => {
                let config = origin.is_client().then_some(&in_force.config);
                let answer = models(&plane.region.fleet, plane.peers.as_deref(), config, path);
                end_answered(recording, answer.status());
                return Ok(answer);
            }
            Ok(()) => {}
        }
        let admitted = plane.admit(in_force, request, endpoint, origin, caller, recording).await?;
        if admitted.dry_run {
            assert!(!admitted.reserved.is_charged(), "a dry run costs its tenant nothing");
            end_answered(recording, StatusCode::OK);
            return Ok(json(StatusCode::OK, plane.explain.dry_run(admitted.question)));
        }
        let recording = std::mem::take(recording);
        Ok(match waiting(in_force, &admitted.context) {
            None => live(&self.attempts, in_force, admitted, recording).await,
            // Rarer, and a future of its own: it may outlive this one.
            Some(waiting) => {
                let (attempts, in_force) = (self.attempts.clone(), in_force.clone());
                let live = async move { live(&attempts, &in_force, admitted, recording).await };
                kept_alive(waiting, Box::pin(live)).await
            }
        })
    }
}

/// What comments need while a request waits; none unless it is a client's stream and `stream_keep_alive`
/// is set, for its model or for all.
fn waiting(in_force: &InForce, context: &RequestContext) -> Option<Waiting> {
    let RequestContext { call, prompt, sender, .. } = context;
    let is_stream = prompt.info.stream && call.endpoint.is_generation();
    // A peer's gateway sends them to its client.
    let may = is_stream && sender.hops == 0;
    let every = in_force.config.keep_alive_of(&prompt.info.model).filter(|_| may)?.0;
    let began = tokio::time::Instant::now();
    Some(Waiting { endpoint: call.endpoint, began, every, shown_id: call.shown_id.clone() })
}

/// Runs a request from the machine's first decision to the beginning of its answer.
async fn live(
    attempts: &Arc<Attempts>,
    in_force: &InForce,
    admitted: Admitted,
    mut recording: Recording,
) -> Response<AnswerBody> {
    assert!(!admitted.dry_run, "a dry run is explained, and not sent");
    let plane = &attempts.plane;
    let Admitted { context, payload, reserved, question, others, .. } = admitted;
    let shown_id = context.call.shown_id.as_bytes();
    plane.explain.note(shown_id, question.id, &context.terms.residence);
    note_admitted(&mut recording, &context);
    let (mut ticket, verdict) = plane.region.driver.arrive(question, recording);
    if let Some(others) = others {
        others.count(&plane.metrics, &context);
        let parts = fallback::Parts { in_force, attempts };
        let run = Run { context, payload, reserved, ticket };
        // Larger than an ordinary request, and rarer.
        return Box::pin(fallback::among(parts, run, verdict, others)).await;
    }
    match attempts.follow(&context, &payload, &mut ticket, verdict).await {
        Ok(answer) => answered(attempts, context, payload, reserved, ticket, answer),
        Err(why) => unanswered(plane, &context, reserved, ticket, why),
    }
}

/// A request that is refused as its client's mistake costs its tenant one request: to read it is
/// work, and a tenant's limit of requests includes bad ones. One that a limit refuses costs nothing.
fn charged(rates: Option<&Rates>, refusal: Refusal) -> Refusal {
    let is_mistake = refusal.status.is_client_error()
        && refusal.status != StatusCode::TOO_MANY_REQUESTS
        && refusal.limited.is_none();
    let over = rates.filter(|_| is_mistake).and_then(|rates| rates.mistake().err());
    over.unwrap_or(refusal)
}

/// Whether a path is served, and by this method. A path of the configuration may have any.
fn allowed(
    endpoint: Endpoint,
    method: &Method,
    path: &str,
    settings: &Settings,
) -> Result<(), Refusal> {
    let listed = || settings.paths.iter().any(|listed| listed == path);
    match endpoint.methods(path) {
        None if !listed() => Err(Refusal::unknown_path(openai::remedy(path))),
        None => Ok(()),
        Some(allow) if allow.split(", ").any(|one| one == method.as_str()) => Ok(()),
        Some(_) if endpoint.passes_unread() && listed() => Ok(()),
        Some(allow) => Err(Refusal::wrong_method(allow)),
    }
}

/// The request is admitted, and given to a fallback if its model cannot serve it.
fn note_admitted(recording: &mut Recording, context: &RequestContext) {
    if context.prompt.fallback.is_some() {
        context.note_fallback(recording);
    }
    context.note(recording);
    recording.note(|record| {
        record.id = Some(context.call.shown_id.clone());
        record.times.admitted = Some(Instant::now());
    });
}

/// The request ends with a refusal before the machine has it.
fn end_refused(recording: &mut Recording, refusal: &Refusal) {
    recording.note(|record| record.refused(refusal.status, refusal.code));
    let status = refusal.status;
    let lacks_capacity = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
    recording.end(if lacks_capacity { "rejected" } else { "client_error" });
}

/// The request ends with an answer of the gateway itself, and nothing was sent.
fn end_answered(recording: &mut Recording, status: StatusCode) {
    recording.note(|record| record.status = Some(status));
    recording.end(if status.is_success() { DONE } else { "client_error" });
}

fn with_id(mut response: Response<AnswerBody>, id: HeaderValue) -> Response<AnswerBody> {
    response.headers_mut().insert(headers::REQUEST_ID, id);
    response
}

/// The response with its id in the header that clients of this API read it from.
fn named_for(endpoint: Endpoint, mut response: Response<AnswerBody>) -> Response<AnswerBody> {
    let headers = response.headers_mut();
    let id = headers.get(headers::REQUEST_ID).filter(|_| endpoint.is_anthropic()).cloned();
    if let Some(id) = id {
        // A provider behind the gateway has named it already.
        headers.entry(headers::ANTHROPIC_REQUEST_ID).or_insert(id);
    }
    response
}

/// `/v1/models`: every model of the replicas here and at peers, once. For clients, also what the
/// `config` adds: the models that are scaled to zero, since many clients look for their model before
/// they send a request, and the aliases.
fn models(
    fleet: &Fleet,
    peers: Option<&Peers>,
    config: Option<&Config>,
    path: &str,
) -> Response<AnswerBody> {
    let mut pages: Vec<_> = fleet.all().iter().filter_map(|m| m.models_page()).collect();
    // A model that is served both here and there is described by this region's list.
    pages.extend(peers.iter().flat_map(|peers| peers.models.pages()));
    let at_zero = config.into_iter().flat_map(Config::scaled_to_zero);
    pages.push(model_list(&at_zero.map(str::to_owned).collect::<Vec<_>>()));
    let pages: Vec<&[u8]> = pages.iter().map(AsRef::as_ref).collect();
    let aliases = config.into_iter().flat_map(Config::aliases);
    let merged = openai::merge_models(&pages, aliases);
    let Some(id) = path.strip_prefix("/v1/models/").filter(|id| !id.is_empty()) else {
        return json(StatusCode::OK, merged);
    };
    // Clients encode the slash of a name.
    let decoded = percent_encoding::percent_decode_str(id).decode_utf8();
    let found = openai::find_model(&merged, id)
        .or_else(|| openai::find_model(&merged, decoded.as_deref().ok()?));
    match found {
        Some(model) => json(StatusCode::OK, model),
        None => Refusal::unknown_model().response(Endpoint::Models),
    }
}
