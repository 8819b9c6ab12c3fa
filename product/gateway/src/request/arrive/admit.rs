//! Admission: reads a request's body in full, fingerprints the prompt, and determines its model,
//! its residency rules, the replica with its state, and its deadline.

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, request};
use hyper::body::Incoming;
use meridian_base::ModelId;
use meridian_base::residency::{Labels, Residence, Subject};
use meridian_protocol::openai::{self, Endpoint, RequestInfo, Splices};
use meridian_routing as routing;

use crate::http::collect::{Collected, collect};
use crate::http::headers;
use crate::http::limits::Permit;
use crate::inputs::engine_fields;
use crate::inputs::in_force::InForce;
use crate::inputs::salts::Salts;
use crate::peers::report::Report;
use crate::record::Recording;
use crate::refusal::Refusal;
use crate::request::arrive::candidate::{Candidate, Fallbacks, Text, head, reply, scale_from_zero};
use crate::request::arrive::origin::{Caller, Origin};
use crate::request::arrive::question::{
    deadline, home, key, may_continue, question, reach, session,
};
use crate::request::context::{Call, Payload, Prompt, RequestContext, Sender, Terms};
use crate::request::plane::DataPlane;
use crate::request::reserved::Reserved;

/// An admitted request.
pub(crate) struct Admitted {
    pub(crate) context: RequestContext,
    pub(crate) payload: Payload,
    pub(crate) reserved: Reserved,
    /// The routing machine's input.
    pub(crate) question: routing::Request,
    /// The models to try if its own cannot serve it; absent without fallbacks.
    pub(crate) others: Option<Box<Fallbacks>>,
    /// Decide and explain without sending anything.
    pub(crate) dry_run: bool,
}

impl DataPlane {
    /// Admits a request of `caller`, or refuses it with a reason.
    pub(crate) async fn admit(
        &self,
        in_force: &InForce,
        request: Request<Incoming>,
        endpoint: Endpoint,
        origin: Origin,
        caller: Caller,
        recording: &mut Recording,
    ) -> Result<Admitted, Refusal> {
        let began = Instant::now();
        let settings = &in_force.settings;
        let Received { parts, body, permits, engine_headers } =
            self.receive(in_force, request).await?;
        recording.note(|record| record.times.received = Some(Instant::now()));
        let tenant = self.inputs.reading.hash(caller.tenant.as_ref().map(HeaderValue::as_bytes));
        let reading = self.inputs.reading.of(settings.isolates.then_some(tenant));
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
        let head = head(target, &parts.headers);
        let text = Text { endpoint, head, body: &body, reading: &reading };
        let info = self.read(in_force, &text, &origin, &engine_headers)?;
        let tells = in_force.tells || !origin.is_client();
        let dry_run = is_dry_run(&parts.headers, tells)?;
        let mut others = Fallbacks::of(in_force, &info, &origin, caller.tenant.as_ref());
        let home = home(&self.inputs, in_force, (endpoint, target), &info, (tenant, &origin))?;
        let rest = others.as_deref_mut().filter(|_| !dry_run);
        let candidate = self.candidate(in_force, &text, info, (&origin, home), rest, dry_run)?;
        let Candidate { mut info, model, tokens, held, fallback } = candidate;
        let mut reserved = Reserved::new(permits, held);
        may_continue(&self.region.fleet, model, &origin).inspect_err(|_| reserved.unserved())?;
        if let Some(rates) = caller.rates.as_ref().filter(|_| !dry_run) {
            reserved.charge(rates.admit(tokens, reply(endpoint, &info), info.replies))?;
        }
        let id = self.ids.next();
        let keys = (&settings.key_headers[..], &*self.inputs);
        // A peer sends the client's headers along.
        let session = session(keys, &parts.headers, &info, tenant);
        let key = key(session, tenant, &origin);
        let priority = info.tier.map_or(caller.priority, |asked| asked.min(caller.priority));
        recording.note(|record| record.priority = Some(priority));
        let (hops, died) = (origin.hops(), origin.died());
        let deadline = deadline(self.region.driver.clock.now(), &parts.headers, &origin);
        let (residence, report) = self.residence(in_force, caller.tenant.as_ref(), model, origin);
        let reach = reach(&self.inputs.residency, self.peers.as_deref(), model, home, &residence);
        // A model with fallbacks gives way to them at once, unless it is scaled to zero: such a model
        // would never start, since its requests show that it is needed. A fallback does not wait here.
        // A request of a peer is queued by the gateway that its client is connected to.
        let waits = hops == 0 && fallback.is_none();
        let scale_from_zero = scale_from_zero(in_force, &info.model).filter(|_| waits);
        let awaited = others.is_none() && self.awaits(in_force, &info.model, model);
        let shown_id = headers::request_id(&self.ids, &parts.headers, id);
        let path = info.target.take().unwrap_or_else(|| path(&parts, endpoint));
        let (prompt, mut payload) =
            salted(&in_force.salts, model, tokens, info, body, caller.tenant.as_ref());
        self.split(endpoint, model, &mut payload);
        let tenant_name = self.peers.is_some().then_some(caller.tenant).flatten();
        let context = RequestContext {
            began,
            settings: settings.clone(),
            call: call(parts, endpoint, path, shown_id),
            sender: Sender { tenant, tenant_name, key, session, priority, hops, died, report },
            prompt: Prompt { fallback, ..prompt },
            terms: Terms { residence, deadline, tells },
        };
        let block_tokens = self.inputs.ratios.get(model) * reading.block_bytes as f32;
        let splits = payload.prefill.is_some();
        let question = question(&context, id, reach, block_tokens);
        let question = routing::Request { splits, awaited, scale_from_zero, ..question };
        Ok(Admitted { context, payload, reserved, question, others, dry_run })
    }

    /// Reads the facts about a request's body, with the model as engines serve it.
    fn read(
        &self,
        in_force: &InForce,
        text: &Text<'_>,
        origin: &Origin,
        engine_headers: &[&'static str],
    ) -> Result<RequestInfo, Refusal> {
        let only = OnceCell::new();
        // A peer has resolved the alias already, and has the name that its own file gives it.
        let served = |name: &str| match name {
            _ if !origin.is_client() => None,
            "" => only.get_or_init(|| self.region.fleet.only_model()).as_deref(),
            name => in_force.config.served(name),
        };
        let info = openai::read_as((text.endpoint, text.head), text.body, text.reading, served)
            .map_err(Refusal::bad_request)?;
        let mode = in_force.settings.engine_fields;
        engine_fields::judge(mode, &self.metrics, engine_headers, &info.splices)?;
        Ok(info)
    }

    /// Adds the body of the prefill leg. That is another pass over the body, so only where a prefill
    /// replica may serve it.
    pub(crate) fn split(&self, endpoint: Endpoint, model: ModelId, payload: &mut Payload) {
        let beyond = || self.peers.as_ref().is_some_and(|peers| peers.have_pairs());
        if self.region.fleet.may_split(model) || beyond() {
            payload.prefill = self.prefill_leg(endpoint, payload);
        }
    }

    /// The body of the prefill leg, if the request may have one.
    fn prefill_leg(&self, endpoint: Endpoint, payload: &Payload) -> Option<Splices> {
        match openai::prefill_leg(endpoint, &payload.body, &payload.splices) {
            Ok(splices) => Some(splices),
            Err(why) => {
                self.metrics.stays_whole(why.word());
                None
            }
        }
    }

    /// Reads the body in full, within the gateway's limits.
    async fn receive(
        &self,
        in_force: &InForce,
        request: Request<Incoming>,
    ) -> Result<Received, Refusal> {
        if self.region.draining.has_started() {
            return Err(Refusal::draining());
        }
        let InForce { settings, limits, .. } = in_force;
        let room = limits.requests.take(1).ok_or_else(|| Refusal::busy("limits.requests"))?;
        let (mut parts, body) = request.into_parts();
        let engine_headers = engine_fields::take(&mut parts.headers);
        let (patience, limit) = (settings.timeouts.client.0, settings.body_bytes);
        let collected = collect(&parts.headers, body, patience, limit, &limits.bodies).await?;
        let Collected { bytes, mut permits } = collected;
        permits.push(room);
        Ok(Received { parts, body: openai::without_mark(bytes), permits, engine_headers })
    }

    /// The residency rules that name a request, including those that a peer sent with it; and the
    /// report for that peer.
    pub(crate) fn residence(
        &self,
        in_force: &InForce,
        tenant: Option<&HeaderValue>,
        model: ModelId,
        origin: Origin,
    ) -> (Residence, Option<Arc<Report>>) {
        let named =
            in_force.rules.names_models().then(|| self.region.fleet.models.name(model)).flatten();
        let none = Labels::new();
        let subject = |from| Subject {
            tenant: tenant.and_then(|name| name.to_str().ok()),
            labels: in_force.tenants.labels(tenant).unwrap_or(&none),
            model: named.as_deref().unwrap_or_default(),
            from,
        };
        match origin {
            Origin::Client(_) => {
                (in_force.rules.residence(&subject(&in_force.settings.region), Vec::new()), None)
            }
            Origin::Peer { marks, report, from } => {
                (in_force.rules.residence(&subject(from.region()), marks.rules), Some(report))
            }
        }
    }
}

/// A request with its body.
struct Received {
    parts: request::Parts,
    body: Bytes,
    permits: Vec<Permit>,
    /// Private engine headers that were removed.
    engine_headers: Vec<&'static str>,
}

/// The facts about a request and its payload; both with a salt if tenants share nothing.
pub(crate) fn salted(
    salts: &Salts,
    model: ModelId,
    tokens: u32,
    mut info: RequestInfo,
    body: Bytes,
    tenant: Option<&HeaderValue>,
) -> (Prompt, Payload) {
    let salt = salts.of(tenant.map(HeaderValue::as_bytes), info.cache_salt.as_deref());
    if let Some(salt) = &salt {
        info.salt(salt);
    }
    let splices = std::mem::take(&mut info.splices);
    let payload = Payload { body, splices, prefill: None, continues: false };
    (Prompt { model, tokens, info, fallback: None, salt }, payload)
}

fn call(
    mut parts: request::Parts,
    endpoint: Endpoint,
    path: String,
    shown_id: HeaderValue,
) -> Call {
    headers::to_replica(&mut parts.headers, &shown_id);
    Call { endpoint, path, method: parts.method, headers: parts.headers, shown_id }
}

/// The path and the query for a replica. A slash at the end of an API path is removed: engines
/// answer it with redirects to themselves.
fn path(parts: &request::Parts, endpoint: Endpoint) -> String {
    let whole = parts.uri.path_and_query().map_or("/", |p| p.as_str());
    match parts.uri.path().strip_suffix('/') {
        Some(path) if endpoint != Endpoint::Other => path.to_owned() + &whole[path.len() + 1..],
        _ => whole.to_owned(),
    }
}

/// Whether the request is a dry run. Only clients that may see the fleet can send one.
fn is_dry_run(headers: &HeaderMap, tells: bool) -> Result<bool, Refusal> {
    match headers.get(headers::DRY_RUN).is_some_and(|v| v == "true" || v == "1") {
        true if !tells => Err(Refusal::no_dry_run()),
        asked => Ok(asked),
    }
}
