//! Prefill and decode replicas: their versions, and whether a prefill hands over KV.
//!
//! Engines of unequal versions refuse each other's KV, and an engine without a KV connector answers
//! a prefill leg like any request. The question is one prefill of a few hundred tokens; its KV stays
//! in the replica until the engine's lease ends, half a minute with vLLM.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use meridian_protocol::engines;
use meridian_protocol::legs::{Handed, Pair, Protocol};
use meridian_protocol::openai::Endpoint;
use meridian_routing::Role;

use super::one_token::send;
use crate::replicas::member::{Found, Member};
use crate::replicas::upstream::Upstream;

/// A prompt that fills some blocks of KV.
const PROMPT: &str = "one two three four five six seven eight ";
const TIMES: usize = 40;

/// A replica that can form pairs.
pub(super) struct Partner {
    /// Its place in the configuration.
    i: usize,
    member: Arc<Member>,
    protocol: &'static Protocol,
    models: Vec<String>,
    /// `None` if its engine has no page about it.
    version: Option<String>,
}

/// A replica with a role, and its problems; none if it forms no pair.
pub(super) async fn partner(
    upstream: &Upstream,
    i: usize,
    member: Arc<Member>,
    found: Found,
    problems: &mut Vec<String>,
) -> Option<Partner> {
    let engine = found.engine.unwrap_or(engines::NONE);
    let (url, role) = (&member.spec.url, &member.spec.role);
    let Some(protocol) = member.transfer_of(Some(engine)) else {
        problems.push(format!(
            "replicas[{i}].role: `{}` forms no pair, as no protocol is known by which `{}` at {url} hands over KV; set `transfer`, or remove `role`",
            role.name(), engine.name
        ));
        return None;
    };
    if let (Some(path), None) = (engine.version, &found.version) {
        problems.push(format!(
            "replicas[{i}].url: {url}{path} tells no version; pairs need equal versions: open the page to the gateway"
        ));
    }
    if role.0 == Role::Prefill && protocol.hands_over {
        let model = found.models.first().map_or("", String::as_str);
        if let Err(problem) = try_prefill(upstream, &member, protocol, model).await {
            let name = protocol.name;
            problems.push(format!("replicas[{i}].transfer: `{name}` at {url}: {problem}"));
        }
    }
    let Found { models, version, .. } = found;
    Some(Partner { i, member, protocol, models, version })
}

/// Sends one prefill leg, and reads what it hands over.
async fn try_prefill(
    upstream: &Upstream,
    member: &Member,
    protocol: &Protocol,
    model: &str,
) -> Result<(), String> {
    let pair = Pair {
        id: 0,
        host: "",
        port: 0,
        bootstrap_host: None,
        bootstrap_port: None,
        engine_id: None,
        rank: None,
        ttft_left_ms: None,
    };
    // A protocol whose prefill needs its partner cannot be tried alone.
    let Ok(added) = (protocol.prefill)(&pair) else { return Ok(()) };
    let Some(body) = body(model, &added.members) else { return Ok(()) };
    let told = send(upstream, member, "/v1/completions", body).await;
    let told = told.map_err(|error| format!("a prefill leg was not answered: {error}"))?;
    if told.status != StatusCode::OK {
        return Err(format!("a prefill leg was answered with status {}", told.status.as_u16()));
    }
    Handed::read(Endpoint::Completions, &told.body).map(drop).map_err(|error| error.to_string())
}

/// The body of a prefill leg.
fn body(model: &str, members: &[Bytes]) -> Option<Bytes> {
    let model = serde_json::Value::from(model);
    let prompt = PROMPT.repeat(TIMES);
    let members = String::from_utf8(members.concat()).ok()?;
    let fixed = format!(r#""model":{model},"prompt":"{prompt}","max_tokens":1,"stream":false"#);
    Some(format!("{{{fixed},{members}}}").into())
}

/// The replicas of which no partner runs their version. During a rolling upgrade old replicas pair
/// with old ones, and new with new.
pub(super) fn unequal(all: &[Partner]) -> impl Iterator<Item = String> {
    all.iter().filter_map(|one| alone(one, all))
}

fn alone(one: &Partner, all: &[Partner]) -> Option<String> {
    let version = one.version.as_ref()?;
    let role = &one.member.spec.role;
    let is_other = |other: &&Partner| {
        other.member.spec.role != *role
            && std::ptr::eq(other.protocol, one.protocol)
            && other.models.iter().any(|model| one.models.contains(model))
    };
    let mut others = all.iter().filter(is_other).filter_map(|o| Some((o.i, o.version.as_ref()?)));
    let first = others.next()?;
    if first.1 == version || others.any(|(_, other)| other == version) {
        return None;
    }
    Some(format!(
        "replicas[{}].url: {} runs version {version}, and of the {} replicas none does: replicas[{}] runs {}; pairs need equal versions, upgrade the older one",
        one.i,
        one.member.spec.url,
        if role.0 == Role::Prefill { "decode" } else { "prefill" },
        first.0,
        first.1,
    ))
}
