//! Asks the prefill and decode replicas of a configuration what only they can tell: their versions,
//! and whether a prefill hands over KV.
//!
//! Engines of unequal versions refuse each other's KV, and an engine without a KV connector answers
//! a prefill leg like any request. The question is one prefill of a few hundred tokens; its KV stays
//! in the replica until the engine's lease ends, half a minute with vLLM.

use bytes::Bytes;
use meridian_routing::Role;
use meridian_wire::admin::{AddReplica, EngineName};
use meridian_wire::config::Gateway;
use meridian_wire::engines::{self, Answers, Engine};
use meridian_wire::legs::{Handed, Pair, Protocol};
use meridian_wire::openai::{Endpoint, model_ids};

use crate::http::{self, Secured};

/// A prompt that fills some blocks of KV.
const PROMPT: &str = "one two three four five six seven eight ";
const TIMES: usize = 40;

/// The replicas with a role of a configuration, asked one after the other.
struct Asker<'a> {
    config: &'a Gateway,
    problems: Vec<String>,
}

/// What a replica tells.
struct Facts<'a> {
    /// Its place in the configuration.
    i: usize,
    replica: &'a AddReplica,
    protocol: &'static Protocol,
    models: Vec<String>,
    /// `None` if its engine has no page about it.
    version: Option<String>,
}

/// The problems that the replicas' answers show.
pub(super) fn problems(config: &Gateway) -> Vec<String> {
    let mut asker = Asker { config, problems: Vec::new() };
    let parts = config.replicas.iter().enumerate().filter(|(_, r)| !r.role.is_both());
    let all: Vec<Facts<'_>> = parts.filter_map(|(i, r)| asker.facts(i, r)).collect();
    // Partners may come from elsewhere.
    let is_whole = config.discovery.is_empty() && config.control.is_none();
    asker.problems.extend(all.iter().filter(|_| is_whole).filter_map(|one| unequal(one, &all)));
    for one in &all {
        if one.replica.role.0 == Role::Prefill && one.protocol.hands_over {
            asker.try_prefill(one);
        }
    }
    asker.problems
}

/// Why no replica of the other role runs the version of this one. During a rolling upgrade old
/// replicas pair with old ones, and new with new.
fn unequal(one: &Facts<'_>, all: &[Facts<'_>]) -> Option<String> {
    let version = one.version.as_ref()?;
    let is_other = |other: &&Facts<'_>| {
        other.replica.role != one.replica.role
            && other.protocol == one.protocol
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
        one.replica.url,
        if one.replica.role.0 == Role::Prefill { "decode" } else { "prefill" },
        first.0,
        first.1,
    ))
}

impl Asker<'_> {
    /// What a replica tells; none if it does not answer, or forms no pair.
    fn facts<'a>(&mut self, i: usize, replica: &'a AddReplica) -> Option<Facts<'a>> {
        // The live check reports a replica that does not answer.
        let Ok((200, page)) = self.ask("GET", replica, "/v1/models", String::new()) else {
            return None;
        };
        let listed = || model_ids(page.as_bytes()).unwrap_or_default();
        let models = if replica.models.is_empty() { listed() } else { replica.models.clone() };
        let engine = self.engine(replica);
        let Some(protocol) = replica.protocol(Some(engine)) else {
            self.problems.push(format!(
                "replicas[{i}].role: `{}` forms no pair, as no protocol is known by which `{}` at {} hands over KV; set `transfer`, or remove `role`",
                replica.role.name(), engine.name, replica.url
            ));
            return None;
        };
        let version = engine.version.and_then(|path| {
            let version = self.page(replica, path).and_then(|page| engines::version(&page));
            if version.is_none() {
                self.problems.push(format!(
                    "replicas[{i}].url: {}{path} tells no version; pairs need equal versions: open the page to the gateway",
                    replica.url
                ));
            }
            version
        });
        Some(Facts { i, replica, protocol, models, version })
    }

    /// The configured engine, or the one that the replica's pages identify.
    fn engine(&self, replica: &AddReplica) -> Engine {
        if let EngineName::Is(engine) = replica.engine {
            return engine;
        }
        let metrics = self.page(replica, "/metrics");
        let answers = Answers { metrics: metrics.as_deref(), ..Answers::default() };
        let by_own_page = || {
            engines::own_pages().find_map(|own| {
                let page = self.page(replica, own.path)?;
                engines::detect(&Answers { own: Some((own.path, &page)), ..Answers::default() })
            })
        };
        engines::detect(&answers).or_else(by_own_page).unwrap_or(engines::NONE)
    }

    fn page(&self, replica: &AddReplica, path: &str) -> Option<Vec<u8>> {
        let (status, page) = self.ask("GET", replica, path, String::new()).ok()?;
        (status == 200).then(|| page.into_bytes())
    }

    /// Sends one prefill leg, and reads what it hands over.
    fn try_prefill(&mut self, one: &Facts<'_>) {
        let Facts { i, replica, protocol, models, .. } = one;
        let model = models.first().map_or("", String::as_str);
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
        let name = replica.credentials.as_ref();
        let own = name.and_then(|name| self.config.credentials.get(name));
        let key = own.and_then(|own| own.key.as_ref()).or(self.config.engine_key.as_ref());
        let ca = own.and_then(|own| own.ca.as_deref());
        let trusted = ca.map_or(Secured::Trusted, |ca| Secured::Gateway { ca, own: None });
        let secured = url.starts_with("https://").then_some(trusted);
        http::ask(method, &format!("{url}{path}"), key.map(String::as_str), secured, body)
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
