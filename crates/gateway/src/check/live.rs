//! `meridian check --live`: meets the machines that the configuration names, as a start would.
//!
//! It opens the addresses, finds out the engine and the models of each replica by the code that a
//! gateway runs, sends each one a request of one token, and connects to each peer. Replicas of
//! `discovery` and of the control plane are not asked.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use meridian_wire::config::{Gateway as Config, cannot_listen};
use meridian_wire::engines::{self, Engine};
use meridian_wire::openai::{Answer, Endpoint, Usage};
use tokio_util::sync::CancellationToken;

use crate::check::Parts as Made;
use crate::http::parts::Parts;
use crate::replicas::discovery::look;
use crate::replicas::fleet::{Fleet, Found, Member};
use crate::replicas::probes;
use crate::replicas::questions::Questions;
use crate::replicas::upstream::Upstream;

/// Time for the answer of one token: the engine may be busy.
const PATIENCE: Duration = Duration::from_secs(20);
/// Largest such answer, bytes.
const MOST: usize = 1 << 20;
/// Difference of clocks that is reported. A `Date` header has whole seconds, and takes its time.
const APART: Duration = Duration::from_secs(5);

/// The result of a live check.
#[derive(Debug, Default)]
pub struct Live {
    /// One sentence for each thing that works.
    pub fine: Vec<String>,
    /// One sentence for each thing that does not, with the field and the remedy.
    pub problems: Vec<String>,
}

impl Live {
    fn add(&mut self, one: Result<String, String>) {
        match one {
            Ok(fine) => self.fine.push(fine),
            Err(problem) => self.problems.push(problem),
        }
    }
}

/// Meets everything that a valid configuration names.
pub async fn check_live(config: &Config) -> Live {
    let mut live = Live::default();
    let ports = [("listen", Some(config.listen)), ("admin", Some(config.admin))];
    let peers = config.peers.as_ref().map(|peers| peers.listen);
    for (field, address) in ports.into_iter().chain([("peers.listen", peers)]) {
        if let Some(address) = address {
            live.add(free(field, address));
        }
    }
    let routing = config.routing().map(|routing| routing.policy.name);
    let made = routing.map_err(|e| e.to_string()).and_then(|policy| {
        Made::make(config, 0, None, policy).map_err(|error| error.to_string())
    });
    match made {
        Ok(made) => {
            replicas(config, &made, &mut live).await;
            if let Some(peers) = &made.peers {
                for (name, met) in peers.meet().await {
                    live.add(match met {
                        Ok(()) => Ok(format!("peers.gateways: {name} answers")),
                        Err(why) => Err(format!(
                            "peers.gateways: {name}: {why}; start it, or correct its address here"
                        )),
                    });
                }
            }
        }
        Err(problem) => live.problems.push(problem),
    }
    live
}

/// Whether an address is free.
fn free(field: &str, address: SocketAddr) -> Result<String, String> {
    match std::net::TcpListener::bind(address) {
        Ok(_) => Ok(format!("{field}: {address} is free")),
        Err(error) => Err(cannot_listen(field, address, &error)),
    }
}

async fn replicas(config: &Config, made: &Made, live: &mut Live) {
    let over = CancellationToken::new();
    let fleet = Fleet::new(&config.region, made.credentials.clone(), over.clone());
    let upstream = Upstream::new(config);
    let questions = Questions::new(config, upstream.clone(), upstream.clone());
    let asker = Arc::new(Asker { upstream, questions });
    let mut asked = tokio::task::JoinSet::new();
    for (i, spec) in config.replicas.iter().enumerate() {
        match fleet.join(spec.clone(), Duration::ZERO, u16::MAX) {
            Err(error) => live.problems.push(format!("replicas[{i}].{error}")),
            Ok(member) => {
                let asker = asker.clone();
                asked.spawn(async move { (i, asker.ask(i, &member).await) });
            }
        }
    }
    let mut all = asked.join_all().await;
    all.sort_by_key(|(i, _)| *i);
    for (_, mut one) in all {
        live.fine.append(&mut one.fine);
        live.problems.append(&mut one.problems);
    }
    over.cancel();
}

struct Asker {
    upstream: Upstream,
    questions: Questions,
}

impl Asker {
    async fn ask(&self, i: usize, member: &Member) -> Live {
        let mut live = Live::default();
        let at = format!("replicas[{i}].url: {}", member.spec.url);
        let found = match look(&self.questions, member).await {
            Ok(found) => found,
            Err(error) => {
                live.problems.push(format!("{at}: {error}; start it, or correct its address"));
                return live;
            }
        };
        let engine = found.engine.unwrap_or(engines::NONE);
        if let Err(error) = probes::read_load(&self.questions, member, &found).await {
            live.problems.push(format!("{at}: {error}"));
        }
        if found.models.is_empty() {
            live.problems.push(format!("{at}: serves no model; load one, or list its `models`"));
        }
        live.fine.push(format!("{at}: {}", describe(engine, &found)));
        if member.spec.role.is_both() {
            self.converse(&at, member, engine, &found, &mut live).await;
        }
        live
    }

    /// Sends a request of one token, and reads what the answer tells about the engine and its clock.
    async fn converse(
        &self,
        at: &str,
        member: &Member,
        engine: Engine,
        found: &Found,
        live: &mut Live,
    ) {
        let Some(model) = found.models.first() else { return };
        let mut answer = self.send(member, "/v1/chat/completions", model).await;
        if matches!(&answer, Ok(told) if told.status.is_client_error()) {
            answer = self.send(member, "/v1/completions", model).await;
        }
        match answer {
            Err(why) => live.problems.push(format!("{at}: a request of one token: {why}")),
            Ok(told) if !told.status.is_success() => live.problems.push(format!(
                "{at}: a request of one token was answered {}; the engine's log has the reason",
                told.status
            )),
            Ok(told) => {
                let hides = told.usage.is_none_or(|usage| usage.cached_tokens.is_none());
                if let (true, Some(remedy)) = (hides, engine.cached_tokens) {
                    live.problems.push(format!(
                        "{at}: its answers do not report cached tokens, so hits are guessed; {remedy}"
                    ));
                }
                live.problems.extend(told.apart.map(|apart| {
                    format!("{at}: its clock is {} s off this one; run NTP on both", apart.as_secs())
                }));
            }
        }
    }

    async fn send(
        &self,
        member: &Member,
        path: &str,
        model: &str,
    ) -> Result<Told, String> {
        let endpoint = Endpoint::of(path);
        let mut headers = HeaderMap::new();
        let json = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
        let body = Parts::single(request(endpoint, model));
        let whole = async {
            let sent = self.upstream.send(&member.dial, &Method::POST, path, &headers, &body);
            let answered = sent.await.map_err(|error| error.to_string())?;
            let body = Limited::new(answered.body, MOST).collect().await;
            let body = body.map_err(|error| format!("the answer stopped early: {error}"))?;
            let usage = usage(endpoint, body.to_bytes());
            Ok(Told { status: answered.head.status, usage, apart: apart(&answered.head.headers) })
        };
        let late = || format!("no answer within {} s", PATIENCE.as_secs());
        tokio::time::timeout(PATIENCE, whole).await.map_err(|_| late())?
    }
}

/// The answer to a request of one token.
struct Told {
    status: StatusCode,
    usage: Option<Usage>,
    /// How far its clock is from this one, if that matters.
    apart: Option<Duration>,
}

fn request(endpoint: Endpoint, model: &str) -> Bytes {
    let mut body = serde_json::json!({"model": model, "max_tokens": 1, "stream": false});
    match endpoint {
        Endpoint::Completions => body["prompt"] = "Hello".into(),
        _ => body["messages"] = serde_json::json!([{"role": "user", "content": "Hello"}]),
    }
    body.to_string().into()
}

fn usage(endpoint: Endpoint, body: Bytes) -> Option<Usage> {
    let mut answer = Answer::new(endpoint, false, false, false);
    answer.feed(body);
    answer.finish().usage
}

fn apart(headers: &HeaderMap) -> Option<Duration> {
    let date = headers.get(header::DATE)?.to_str().ok()?;
    let there = httpdate::parse_http_date(date).ok()?;
    #[expect(clippy::disallowed_methods, reason = "the clock itself is compared")]
    let here = SystemTime::now();
    let apart = here.duration_since(there).unwrap_or_else(|error| error.duration());
    (apart > APART).then_some(apart)
}

fn describe(engine: Engine, found: &Found) -> String {
    let version = found.version.as_deref().map(|v| format!(" {v}")).unwrap_or_default();
    let models = match found.models.as_slice() {
        [] => "no model".to_owned(),
        [one] => format!("model {one}"),
        [first, rest @ ..] => format!("model {first} and {} more", rest.len()),
    };
    let kv = found.kv_tokens.map(|kv| format!(", {kv} tokens of KV")).unwrap_or_default();
    let slots = found.slots.map(|slots| format!(", {slots} slots")).unwrap_or_default();
    format!("engine {}{version}, {models}{kv}{slots}", engine.name)
}
