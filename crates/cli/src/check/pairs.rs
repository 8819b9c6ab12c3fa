//! Asks the prefill and decode replicas of a configuration what only they can tell: their versions,
//! and whether a prefill hands over KV.
//!
//! Engines of unequal versions refuse each other's KV, and an engine without a KV connector answers
//! a prefill leg like any request. The question is one prefill of a few hundred tokens; its KV stays
//! in the replica until the engine's lease ends, half a minute with vLLM.

use std::collections::BTreeMap;

use bytes::Bytes;
use meridian_routing::Role;
use meridian_wire::admin::{AddReplica, EngineName};
use meridian_wire::config::Gateway;
use meridian_wire::engines;
use meridian_wire::legs::{self, Handed, Pair, Protocol};
use meridian_wire::openai::{Endpoint, model_ids};
use serde::Deserialize;

use crate::http;

/// A prompt that fills some blocks of KV.
const PROMPT: &str = "one two three four five six seven eight ";
const TIMES: usize = 40;

/// The replicas with a role of a configuration, asked one after the other.
struct Asker<'a> {
    config: &'a Gateway,
    problems: Vec<String>,
}

/// The problems that the replicas' answers show.
pub(super) fn problems(config: &Gateway) -> Vec<String> {
    let mut asker = Asker { config, problems: Vec::new() };
    let mut versions: BTreeMap<(String, &str), (usize, String)> = BTreeMap::new();
    for (i, replica) in config.replicas.iter().enumerate().filter(|(_, r)| !r.role.is_both()) {
        let Some((models, version)) = asker.facts(i, replica) else { continue };
        let Some(protocol) = protocol(replica) else { continue };
        let model = models.first().cloned().unwrap_or_default();
        if let Some(version) = version {
            let first = versions.entry((model.clone(), protocol.name));
            let (first, equal) = first.or_insert_with(|| (i, version.clone()));
            if *equal != version {
                let problem = format!(
                    "replicas[{i}].url: {} runs version {version}, and replicas[{first}] {equal}; pairs need equal versions: upgrade the older one",
                    replica.url
                );
                asker.problems.push(problem);
            }
        }
        if replica.role.0 == Role::Prefill && protocol.hands_over {
            asker.try_prefill(i, replica, protocol, &model);
        }
    }
    asker.problems
}

/// The protocol of a replica; for an engine that is not named, vLLM's usual one.
fn protocol(replica: &AddReplica) -> Option<&'static Protocol> {
    let engine = match replica.engine {
        EngineName::Is(engine) => Some(engine),
        EngineName::Auto => engines::find("vllm"),
    };
    let usual = || engine.and_then(|engine| engine.transfer).and_then(legs::find);
    replica.transfer.map(|name| name.0).or_else(usual)
}

impl Asker<'_> {
    /// The models and the version of a replica; none if it does not answer.
    fn facts(&mut self, i: usize, replica: &AddReplica) -> Option<(Vec<String>, Option<String>)> {
        #[derive(Deserialize)]
        struct Version {
            version: String,
        }
        let page = match self.ask("GET", replica, "/v1/models", String::new()) {
            Ok((200, page)) => page,
            Ok((status, _)) => return self.silent(i, replica, &format!("answers {status}")),
            Err(error) => return self.silent(i, replica, &format!("{error:#}")),
        };
        let listed = || model_ids(page.as_bytes()).unwrap_or_default();
        let models = if replica.models.is_empty() { listed() } else { replica.models.clone() };
        let version = self.ask("GET", replica, "/version", String::new()).ok();
        let version = version.filter(|(status, _)| *status == 200);
        let version = version.and_then(|(_, page)| serde_json::from_str::<Version>(&page).ok());
        Some((models, version.map(|page| page.version)))
    }

    fn silent<T>(&mut self, i: usize, replica: &AddReplica, why: &str) -> Option<T> {
        self.problems.push(format!(
            "replicas[{i}].url: {}/v1/models {why}; start the replica, or check without --ask-replicas",
            replica.url
        ));
        None
    }

    /// Sends one prefill leg, and reads what it hands over.
    fn try_prefill(
        &mut self,
        i: usize,
        replica: &AddReplica,
        protocol: &'static Protocol,
        model: &str,
    ) {
        let pair = Pair {
            id: 0,
            host: "",
            port: 0,
            bootstrap_host: None,
            bootstrap_port: None,
            engine_id: None,
            rank: None,
        };
        let Ok(added) = (protocol.prefill)(&pair) else { return };
        let Ok(body) = body(model, &added.members) else { return };
        let problem = match self.ask("POST", replica, "/v1/completions", body) {
            Ok((200, answer)) => match Handed::read(Endpoint::Completions, &Bytes::from(answer)) {
                Ok(_) => return,
                Err(error) => error.to_string(),
            },
            Ok((status, _)) => format!("a prefill leg was answered with status {status}"),
            Err(error) => format!("a prefill leg was not answered: {error:#}"),
        };
        self.problems.push(format!(
            "replicas[{i}].transfer: `{}` at {}: {problem}",
            protocol.name, replica.url
        ));
    }

    fn ask(
        &self,
        method: &str,
        replica: &AddReplica,
        path: &str,
        body: String,
    ) -> anyhow::Result<(u16, String)> {
        let url = replica.url_from(&self.config.region).trim_end_matches('/');
        let key = self.config.engine_key.as_deref();
        http::ask(method, &format!("{url}{path}"), key, None, body)
    }
}

/// The body of a prefill leg.
fn body(model: &str, members: &[Bytes]) -> anyhow::Result<String> {
    let model = serde_json::to_string(model)?;
    let prompt = PROMPT.repeat(TIMES);
    let members = String::from_utf8(members.concat())?;
    Ok(format!(
        "{{\"model\":{model},\"prompt\":\"{prompt}\",\"max_tokens\":1,\"stream\":false,{members}}}"
    ))
}
