//! Answers one request of a client or a peer: refuses it by its head, lists the models, or admits
//! it.

use std::sync::Arc;

use http::{HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use meridian_wire::openai::{self, Endpoint};
use meridian_wire::peer::Marks;

use crate::http::refusal::{Refusal, json};
use crate::http::{head, headers};
use crate::peers::all::Peers;
use crate::replicas::fleet::Fleet;
use crate::request::admit::{Admitted, admit};
use crate::request::body::AnswerBody;
use crate::request::lifecycle::follow;
use crate::request::origin::{Origin, identify};
use crate::request::plane::ThreadPlane;
use crate::request::respond::{answered, unanswered};

/// Answers one request in every case.
pub(crate) async fn answer(
    plane: Arc<ThreadPlane>,
    mut request: Request<Incoming>,
    origin: Origin,
) -> Response<AnswerBody> {
    if origin.is_client() {
        Marks::strip(request.headers_mut());
    }
    let shown_id = request.headers().get(headers::REQUEST_ID).cloned();
    let endpoint = Endpoint::of(request.uri().path());
    let result = serve(&plane, request, endpoint, origin).await;
    result.unwrap_or_else(|refusal| {
        plane.metrics.refused(&refusal);
        with_id(refusal.response(endpoint), shown_id)
    })
}

fn with_id(mut response: Response<AnswerBody>, id: Option<HeaderValue>) -> Response<AnswerBody> {
    if let Some(id) = id {
        response.headers_mut().insert(headers::REQUEST_ID, id);
    }
    response
}

async fn serve(
    plane: &Arc<ThreadPlane>,
    mut request: Request<Incoming>,
    endpoint: Endpoint,
    origin: Origin,
) -> Result<Response<AnswerBody>, Refusal> {
    if origin.is_client() {
        head::check(&request)?;
    }
    let access = plane.inputs.access.now();
    let tenant_header = plane.settings.tenant_header.as_ref();
    let caller = identify(tenant_header, &access, request.headers_mut(), endpoint, &origin)?;
    let path = request.uri().path();
    let passes = endpoint != Endpoint::Other || plane.settings.paths.iter().any(|p| p == path);
    match (endpoint, request.method()) {
        _ if !passes => return Err(Refusal::unknown_path()),
        (Endpoint::Models, &Method::GET | &Method::HEAD) => {
            return Ok(models(&plane.fleet, plane.peers.as_deref(), path));
        }
        (Endpoint::Models, _) => return Err(Refusal::wrong_method("GET, HEAD")),
        (Endpoint::Other, _) | (_, &Method::POST) => {}
        _ => return Err(Refusal::wrong_method("POST")),
    }
    let admitted = admit(plane, &access, request, endpoint, origin, caller).await?;
    match admitted.dry_run {
        true => Ok(json(StatusCode::OK, plane.explain.dry_run(admitted.question))),
        false => Ok(live(plane, admitted).await),
    }
}

/// Runs a request from the machine's first decision to the beginning of its answer.
async fn live(plane: &Arc<ThreadPlane>, admitted: Admitted) -> Response<AnswerBody> {
    let Admitted { context, payload, reserved, question, .. } = admitted;
    plane.ids.note(context.call.shown_id.as_bytes(), question.id);
    plane.explain.note(question.id, &context.terms.residence);
    let (ticket, verdict) = plane.driver.arrive(question);
    match follow(plane, &context, &payload, &ticket, verdict).await {
        Ok(answer) => answered(plane, context, payload, reserved, ticket, answer),
        Err(why) => unanswered(plane, &context, reserved, ticket, why),
    }
}

/// `/v1/models`: every model of the replicas here and at peers, once.
fn models(fleet: &Fleet, peers: Option<&Peers>, path: &str) -> Response<AnswerBody> {
    let mut pages: Vec<_> = fleet.all().iter().filter_map(|m| m.models_page()).collect();
    // A model that is served both here and there is described by this region's list.
    pages.extend(peers.iter().flat_map(|peers| peers.models.pages()));
    let pages: Vec<&[u8]> = pages.iter().map(AsRef::as_ref).collect();
    let merged = openai::merge_models(&pages);
    let Some(id) = path.strip_prefix("/v1/models/").filter(|id| !id.is_empty()) else {
        return json(StatusCode::OK, merged);
    };
    match openai::find_model(&merged, id) {
        Some(model) => json(StatusCode::OK, model),
        None => Refusal::unknown_model().response(Endpoint::Models),
    }
}
