//! The model that a request is tried with: the one that it names, or one of its fallbacks.
//!
//! The body is read again for each, since the prompt's fingerprint is one of a model.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use meridian_base::{Duration, ModelId};
use meridian_protocol::openai::{self, BadRequest, Endpoint, Head, Reading, RequestInfo};
use meridian_routing::{self as routing, RejectWhy};

use crate::inputs::in_force::InForce;
use crate::inputs::models::Held;
use crate::inputs::pins::Home;
use crate::metrics::Metrics;
use crate::refusal::Refusal;
use crate::request::arrive::admit::salted;
use crate::request::arrive::origin::Origin;
use crate::request::arrive::question::{question, reach};
use crate::request::context::{Call, Payload, Prompt, RequestContext};
use crate::request::plane::DataPlane;
use crate::request::reserved::Reserved;

/// A request as a model has it.
pub(crate) struct Candidate {
    pub(crate) info: RequestInfo,
    pub(crate) model: ModelId,
    /// Estimated tokens of the prompt.
    pub(crate) tokens: u32,
    pub(crate) held: Held,
    /// The model's name, if it is a fallback.
    pub(crate) fallback: Option<HeaderValue>,
}

/// A request's text, and how to read it.
pub(crate) struct Text<'a> {
    pub(crate) endpoint: Endpoint,
    pub(crate) head: Head<'a>,
    pub(crate) body: &'a Bytes,
    pub(crate) reading: &'a Reading,
}

/// The models that a request may still try.
pub(crate) struct Fallbacks {
    /// The model that its client asked for.
    model: String,
    /// The next of that model's fallbacks.
    next: usize,
    /// The tenant, for the inputs of the next decision.
    tenant: Option<HeaderValue>,
}

impl Fallbacks {
    /// Those of a request; none if its model has no fallbacks. A response is continued where it is
    /// stored. A request of a peer is tried with others by the gateway that its client is connected to.
    pub(crate) fn of(
        in_force: &InForce,
        info: &RequestInfo,
        origin: &Origin,
        tenant: Option<&HeaderValue>,
    ) -> Option<Box<Fallbacks>> {
        let settings = in_force.config.models.get(&info.model)?;
        let may = origin.is_client() && info.previous_response_id.is_none();
        (may && !settings.fallbacks.is_empty()).then(|| {
            Box::new(Fallbacks { model: info.model.clone(), next: 0, tenant: tenant.cloned() })
        })
    }

    fn next<'a>(&mut self, in_force: &'a InForce) -> Option<&'a str> {
        let next = in_force.config.models.get(&self.model)?.fallbacks.get(self.next)?;
        self.next += 1;
        Some(next)
    }

    /// How long a stream may take to its first token, if another model is left. An answer in one
    /// piece arrives when it is complete, which says nothing about its first token.
    pub(crate) fn patience(
        &self,
        in_force: &InForce,
        context: &RequestContext,
    ) -> Option<std::time::Duration> {
        let settings = in_force.config.models.get(&self.model)?;
        let streams = context.prompt.info.stream && context.call.endpoint.is_generation();
        let after = settings.fallback_after.filter(|_| streams)?;
        (self.next < settings.fallbacks.len()).then_some(after.0)
    }

    /// Whether no other model is left.
    fn is_over(&self, in_force: &InForce) -> bool {
        let settings = in_force.config.models.get(&self.model);
        settings.is_none_or(|settings| self.next >= settings.fallbacks.len())
    }

    /// Counts a request that one of them takes over.
    pub(crate) fn count(&self, metrics: &Metrics, context: &RequestContext) {
        if context.prompt.fallback.is_some() {
            metrics.gives_way(&self.model, &context.prompt.info.model);
        }
    }
}

impl DataPlane {
    /// The model that a new request names, or the first of the `others` that may serve it. If none
    /// does, the refusal is that of the model that it names.
    pub(crate) fn candidate(
        &self,
        in_force: &InForce,
        text: &Text<'_>,
        info: RequestInfo,
        (origin, home): (&Origin, Option<Home>),
        others: Option<&mut Fallbacks>,
        dry_run: bool,
    ) -> Result<Candidate, Refusal> {
        let named = self
            .model(in_force, text, &info, (origin, home))
            .and_then(|model| self.admitted(in_force, text.endpoint, info, model, dry_run));
        let other = |refusal| others.and_then(|o| self.other(in_force, text, o)).ok_or(refusal);
        named.or_else(other)
    }

    /// The next model for an admitted request.
    pub(crate) fn next(
        &self,
        in_force: &InForce,
        context: &RequestContext,
        payload: &Payload,
        others: &mut Fallbacks,
    ) -> Option<Candidate> {
        let tenant = context.settings.isolates.then_some(context.sender.tenant);
        let reading = self.inputs.reading.of(tenant);
        let Call { endpoint, path, headers, .. } = &context.call;
        let text = Text {
            endpoint: *endpoint,
            head: head(path, headers),
            body: &payload.body,
            reading: &reading,
        };
        self.other(in_force, &text, others)
    }

    /// The first of the other models that may serve the request.
    fn other(
        &self,
        in_force: &InForce,
        text: &Text<'_>,
        others: &mut Fallbacks,
    ) -> Option<Candidate> {
        while let Some(name) = others.next(in_force) {
            // Only the last one is waited for.
            let model = match others.is_over(in_force) {
                true => self.known(in_force, name),
                false => self.region.fleet.models.get(name),
            };
            let Some(model) = model else { continue };
            let place = (text.endpoint, text.head);
            let read = openai::read_as(place, text.body, text.reading, |_| Some(name));
            let Ok(mut info) = read else { continue };
            // The answer names the model that gives it.
            info.alias = None;
            if let Ok(found) = self.admitted(in_force, text.endpoint, info, model, false) {
                let fallback = HeaderValue::from_bytes(name.as_bytes()).ok();
                return Some(Candidate { fallback, ..found });
            }
        }
        None
    }

    /// A request that its model's limits admit.
    fn admitted(
        &self,
        in_force: &InForce,
        endpoint: Endpoint,
        info: RequestInfo,
        model: ModelId,
        dry_run: bool,
    ) -> Result<Candidate, Refusal> {
        let tokens = (self.inputs.ratios.get(model) * info.prompt_bytes as f32) as u32;
        let mut held = Held::default();
        if !dry_run && !in_force.models.are_free() {
            // A path that need not name a model is served by any.
            let any = info.model.is_empty().then(|| self.region.fleet.models.name(model)).flatten();
            let name = any.as_deref().unwrap_or(&info.model);
            held = in_force.models.admit(name, tokens, reply(endpoint, &info), info.replies)?;
        }
        Ok(Candidate { info, model, tokens, held, fallback: None })
    }

    /// Gives a request to another model: the question for the routing machine. `worked`: an engine
    /// may have worked on it.
    pub(crate) fn adopt(
        &self,
        in_force: &InForce,
        (context, payload, reserved): (&mut RequestContext, &mut Payload, &mut Reserved),
        (candidate, worked): (Candidate, bool),
        others: &Fallbacks,
    ) -> routing::Request {
        let Candidate { mut info, model, tokens, held, fallback } = candidate;
        if let Some(path) = info.target.take() {
            context.call.path = path;
        }
        let is_last = others.is_over(in_force);
        let awaited = is_last && self.awaits(in_force, &info.model, model);
        let scale_from_zero = scale_from_zero(in_force, &info.model).filter(|_| is_last);
        reserved.hold_instead(held, worked);
        let tenant = others.tenant.as_ref();
        let (residence, _) = self.residence(in_force, tenant, model, Origin::Client(0));
        let reach = reach(&self.inputs.residency, self.peers.as_deref(), model, None, &residence);
        let body = payload.body.clone();
        let (prompt, other) = salted(&in_force.salts, model, tokens, info, body, tenant);
        (context.prompt, *payload) = (Prompt { fallback, ..prompt }, other);
        context.terms.residence = residence;
        self.split(context.call.endpoint, model, payload);
        let ratio = self.inputs.ratios.get(model);
        let block_tokens = ratio * context.prompt.info.fingerprint.block_bytes() as f32;
        let splits = payload.prefill.is_some();
        let question = question(context, self.ids.next(), reach, block_tokens);
        routing::Request { splits, awaited, scale_from_zero, ..question }
    }

    /// Whether a replica may come for a model that none serves: the file names it, or it was served
    /// until recently.
    pub(crate) fn awaits(&self, in_force: &InForce, name: &str, model: ModelId) -> bool {
        let fleet = &self.region.fleet;
        let memory = in_force.config.held.after_last_replica.0;
        let recently = |at| self.region.driver.clock.now().since(at) < memory;
        let is_expected = !in_force.expected.is_empty() && in_force.expected.contains(name);
        is_expected || fleet.departed.at(model).is_some_and(recently)
    }

    /// The id of a model that was served, or that the file names.
    fn known(&self, in_force: &InForce, name: &str) -> Option<ModelId> {
        let models = &self.region.fleet.models;
        let expected = || in_force.expected.contains(name).then(|| models.intern(name)).flatten();
        models.get(name).or_else(expected)
    }

    /// The model's id. For paths that need not name a model, it is the one that the peer names, or
    /// the one that the region serves.
    fn model(
        &self,
        in_force: &InForce,
        text: &Text<'_>,
        info: &RequestInfo,
        (origin, home): (&Origin, Option<Home>),
    ) -> Result<ModelId, Refusal> {
        let fleet = &self.region.fleet;
        // A stored response is of a model that its replica serves.
        if let (Some(Home::At(replica)), true) = (home, info.model.is_empty())
            && let Some(model) = fleet.model_of(replica)
        {
            return Ok(model);
        }
        let said = match origin {
            Origin::Peer { marks, .. } if info.model.is_empty() => marks.model.as_ref(),
            _ => None,
        };
        let said = said.and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
        if let Some(id) = self.known(in_force, said.unwrap_or(&info.model)) {
            return Ok(id);
        }
        let named = !text.endpoint.passes_unread() || !info.model.is_empty();
        match fleet.any_model() {
            // A question to any replica has no body.
            Some(any) if !named && (text.body.is_empty() || !origin.is_client()) => Ok(any),
            Some(any) if !named && fleet.only_model().is_some() => Ok(any),
            Some(_) if !named => Err(unnamed()),
            Some(_) if !fleet.is_unknown() => Err(Refusal::unknown_model()),
            // A replica that has not reported its models yet may serve it.
            _ => Err(Refusal::of(RejectWhy::NoReplica, Duration::from_secs(1), None, false)),
        }
    }
}

/// How long a request waits for the first replica of a model that is scaled to zero.
pub(crate) fn scale_from_zero(in_force: &InForce, model: &str) -> Option<Duration> {
    in_force.config.models.get(model)?.scale_from_zero.map(|wait| wait.0)
}

/// The parts of a request's head that may name its model.
pub(crate) fn head<'a>(target: &'a str, headers: &'a HeaderMap) -> Head<'a> {
    let content_type = headers.get(CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    Head { target, content_type }
}

/// The refusal of a request that names no model where replicas serve several.
fn unnamed() -> Refusal {
    let message = "the request names no model, and the replicas serve several: send `model` in JSON, as a field of the form, or in the query (?model=NAME)";
    Refusal::bad_request(BadRequest { param: Some("model"), message: message.to_owned() })
}

/// Most tokens of each reply; none without a limit.
pub(crate) fn reply(endpoint: Endpoint, info: &RequestInfo) -> Option<u32> {
    if endpoint.is_generation() { info.max_tokens } else { Some(0) }
}
