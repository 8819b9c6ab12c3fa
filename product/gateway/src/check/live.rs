//! `meridian check --live`: meets the machines that the configuration names, as a start would.
//!
//! It opens the addresses, finds out the engine and the models of each replica by the code that a
//! gateway runs, sends each one a request of one token, lists the endpoints of Kubernetes clusters, and
//! connects to each peer and each control plane. Replicas of `discovery` and of the control plane are
//! not asked.

mod one_token;
mod pairs;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use meridian_config::{Gateway as Config, cannot_listen};
use meridian_protocol::engines::{self, Engine};
use tokio_util::sync::CancellationToken;

use self::pairs::Partner;
use crate::cause;
use crate::check::Parts as Made;
use crate::fault::Fault;
use crate::inputs::in_force::ConfigNow;
use crate::registry;
use crate::replicas::discovery::look;
use crate::replicas::fleet::Fleet;
use crate::replicas::member::{Found, Member};
use crate::replicas::probes;
use crate::replicas::questions::Questions;
use crate::replicas::upstream::Upstream;
use crate::sources;

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
    let peers = config.peers.as_ref().map(|peers| ("peers.listen", peers.listen));
    let ports = [("listen", config.listen), ("admin", config.admin)];
    for (field, address) in ports.into_iter().chain(peers) {
        live.add(free(field, address));
    }
    let routing = config.routing().map(|routing| routing.policy.name);
    let made = routing
        .map_err(|error| error.to_string())
        .and_then(|policy| Made::make(config, 0, None, policy).map_err(|error| error.to_string()));
    let made = match made {
        Ok(made) => made,
        Err(problem) => {
            live.problems.push(problem);
            return live;
        }
    };
    replicas(config, &made, &mut live).await;
    for (at, source) in config.discovery.iter().enumerate() {
        let Some(cluster) = &source.kubernetes else { continue };
        let (met, label) = (sources::kubernetes::meet(cluster).await, source.label());
        live.add(match met {
            Ok(fine) => Ok(format!("{label}: {fine}")),
            Err(why) => Err(format!("discovery[{at}].kubernetes: {why}")),
        });
    }
    if let Some(peers) = &made.peers {
        for (name, met) in peers.meet().await {
            live.add(match met {
                Ok(()) => Ok(format!("{name} answers")),
                Err(why) => Err(format!("{name}: {why}; start it, or correct its address here")),
            });
        }
    }
    if let Some(following) = &made.registry {
        registry::meet(following).await.into_iter().for_each(|one| live.add(one));
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
    let config_now = match ConfigNow::fixed(config) {
        Ok(config_now) => config_now,
        Err(error) => return live.problems.push(error.to_string()),
    };
    let upstream = Upstream::new(config_now.clone());
    let questions = Questions::new(config_now, upstream.clone(), upstream.clone());
    let asker = Arc::new(Asker { upstream, questions });
    let mut asked = tokio::task::JoinSet::new();
    for (i, spec) in config.replicas.iter().enumerate() {
        match fleet.join(spec.clone(), Duration::ZERO, u16::MAX) {
            Err(error) => live.problems.push(format!("replicas[{i}].{error}")),
            Ok(member) => {
                let asker = asker.clone();
                asked.spawn(async move { (i, asker.ask(i, member).await) });
            }
        }
    }
    let mut all = asked.join_all().await;
    all.sort_by_key(|(i, _)| *i);
    let mut partners = Vec::new();
    for (_, (mut one, partner)) in all {
        live.fine.append(&mut one.fine);
        live.problems.append(&mut one.problems);
        partners.extend(partner);
    }
    // Partners may come from elsewhere.
    if config.discovery.is_empty() && config.control.is_none() {
        live.problems.extend(pairs::unequal(&partners));
    }
    over.cancel();
}

struct Asker {
    upstream: Upstream,
    questions: Questions,
}

impl Asker {
    async fn ask(&self, i: usize, member: Arc<Member>) -> (Live, Option<Partner>) {
        let mut live = Live::default();
        let at = format!("replicas[{i}].url: {}", member.spec.url);
        let found = match look(&self.questions, &member).await {
            Ok(found) => found,
            Err(error) => {
                let is_silent =
                    error.fault == Fault::Unreached && error.cause != cause::CERTIFICATE;
                let remedy = if is_silent { "; start it, or correct its address" } else { "" };
                live.problems.push(format!("{at}: {}{remedy}", error.message));
                return (live, None);
            }
        };
        let engine = found.engine.unwrap_or(engines::NONE);
        live.fine.push(format!("{at}: {}", describe(engine, &found)));
        let Some(model) = found.models.first() else {
            live.problems.push(format!("{at}: serves no model; load one, or list its `models`"));
            return (live, None);
        };
        if member.spec.role.is_both() {
            let problems = one_token::problems(&self.upstream, &member, engine, model).await;
            live.problems.extend(problems.into_iter().map(|problem| format!("{at}: {problem}")));
        }
        // After an answer: engines may have no figures before their first one.
        if let Err(error) = probes::read_load(&self.questions, &member, &found).await {
            live.problems.push(format!("{at}: {}", error.message));
        }
        if member.spec.role.is_both() {
            return (live, None);
        }
        let partner = pairs::partner(&self.upstream, i, member, found, &mut live.problems).await;
        (live, partner)
    }
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
