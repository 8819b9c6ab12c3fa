//! The status page: the state of the gateway, its replicas, its peers and its sources.

use std::collections::BTreeMap;
use std::sync::Arc;

use meridian_base::{ModelId, Time};
use meridian_config::Gateway as Config;
use meridian_protocol::admin::{
    Certificate, CutPair, Links, Replica, SessionCounts, Shadow, Status,
};
use meridian_protocol::intervals::Intervals;
use meridian_routing::{Role, Routing, Would};

use super::pools::{advice, pools};
use super::tls::AdminTls;
use crate::inputs::in_force::ConfigNow;
use crate::inputs::oidc::KeptIssuers;
use crate::inputs::residency::Residency;
use crate::model_ids::ModelIds;
use crate::peers::all::Peers;
use crate::registry::following::Following;
use crate::replicas::member::Member;
use crate::replicas::region::Region;
use crate::replicas::standing;
use crate::sources::Sources;

/// Everything that the page reads.
pub(crate) struct StatusPage {
    pub(crate) commit: String,
    pub(crate) region: Arc<Region>,
    pub(crate) residency: Arc<Residency>,
    pub(crate) issuers: Arc<KeptIssuers>,
    pub(crate) peers: Option<Arc<Peers>>,
    pub(crate) registry: Option<Arc<Following>>,
    pub(crate) sources: Arc<Sources>,
    pub(crate) config: Arc<ConfigNow>,
    pub(crate) admin_tls: Option<Arc<AdminTls>>,
}

impl StatusPage {
    /// The current state.
    pub(crate) fn read(&self) -> Status {
        let members = self.region.fleet.all();
        let peers = self.peers.as_ref().map(|peers| peers.status(&self.region.driver));
        // Read before the machine is locked: a thread that adds replicas locks the machine while it
        // holds a source's lock.
        let discovery = self.sources.status();
        let control = self.registry.as_ref().map(|registry| registry.status());
        let now = self.region.driver.clock.now();
        let inner = self.region.driver.lock();
        let routing = &inner.routing;
        let one =
            |member: &Arc<Member>| replica(member, routing.replicas().status(member.id, now)?);
        let replicas: Vec<Replica> = members.iter().filter_map(one).collect();
        let held_by_model = held_by_model(routing, &self.region.fleet.models);
        let pools = pools(&replicas, &held_by_model, &self.config.now().expected);
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: self.commit.clone(),
            region: self.config.now().settings.region.clone(),
            policy: routing.config().policy.name.to_owned(),
            admission: routing.config().admission.name().to_owned(),
            uptime_s: now.as_secs_f64(),
            restart_needed: self.config.now().waiting.clone(),
            reload_problems: self.config.troubles.read(),
            requests: inner.requests,
            held: routing.held_len(),
            held_by_model,
            sessions: sessions(routing),
            ttft_ms: inner.ttft.quantiles(),
            prefix: inner.prefix,
            shadow: shadow(routing, &self.config.now().config),
            links: links(routing, &members, now),
            advice: advice(&replicas, &pools),
            replicas,
            pools,
            discovery,
            peers: peers.unwrap_or_default(),
            residency: self.residency.counts.read(),
            control,
            certificates: self.certificates(),
            issuers: self.issuers.status(),
        }
    }

    /// When replicas and peers were up and down.
    pub(crate) fn intervals(&self) -> Intervals {
        let now_ms = self.region.driver.clock.date_ms();
        let gateways = self.peers.as_ref().map(|peers| peers.histories(now_ms));
        let replicas = self.region.fleet.histories.read(now_ms);
        Intervals { now_ms, replicas, gateways: gateways.unwrap_or_default() }
    }

    /// The certificates in force.
    fn certificates(&self) -> Vec<Certificate> {
        let expiries = [
            ("clients", self.config.now().client_tls.as_ref().map(|tls| tls.expires())),
            ("admin", self.admin_tls.as_ref().map(|tls| tls.expires())),
            ("peers", self.peers.as_ref().map(|peers| peers.expires())),
        ];
        let one = |(port, expires): (&str, Option<u64>)| {
            expires.map(|expires| Certificate { port: port.to_owned(), expires })
        };
        expiries.into_iter().filter_map(one).collect()
    }
}

fn sessions(routing: &Routing) -> SessionCounts {
    let (known, largest_share) = routing.sessions();
    SessionCounts { known, largest_share }
}

/// The queued requests of each model.
fn held_by_model(routing: &Routing, models: &ModelIds) -> BTreeMap<String, u32> {
    let mut counts: BTreeMap<ModelId, u32> = BTreeMap::new();
    routing.held_models().for_each(|model| *counts.entry(model).or_default() += 1);
    counts.into_iter().filter_map(|(model, held)| Some((models.name(model)?, held))).collect()
}

/// The shadow policy of the configuration.
fn shadow(routing: &Routing, config: &Config) -> Option<Shadow> {
    let in_force = routing.config();
    let Some((of, totals)) = routing.shadow() else {
        let beside = config.shadow_beside(in_force.policy, &in_force.params);
        let policy = config.shadow.as_ref()?.name.clone();
        let paused = beside.err().map(|problems| problems.join("; "));
        return Some(Shadow { policy, paused, ..Shadow::default() });
    };
    let decisions = Would::ALL.iter().zip(totals.decisions);
    Some(Shadow {
        policy: of.policy.name.to_owned(),
        admission: of.admission.name().to_owned(),
        decisions: decisions.map(|(would, count)| (would.word().to_owned(), count)).collect(),
        compared: totals.compared,
        compared_same: totals.compared_same,
        prompt_tokens: totals.prompt_tokens,
        matched_tokens: totals.matched_tokens,
        shadow_matched_tokens: totals.shadow_matched_tokens,
        first_token_ms: totals.first_token_ms,
        shadow_first_token_ms: totals.shadow_first_token_ms,
        paused: None,
    })
}

/// The links between prefill and decode replicas, if there are both.
fn links(routing: &Routing, members: &[Arc<Member>], now: Time) -> Option<Links> {
    let has = |role| members.iter().any(|member| member.spec.role.0 == role);
    if !has(Role::Prefill) || !has(Role::Decode) {
        return None;
    }
    let links = routing.links();
    let name = |id| members.iter().find(|member| member.id == id).map(|m| m.name.to_string());
    let cut = |(from, to, left): (_, _, meridian_base::Duration)| {
        Some(CutPair { prefill: name(from)?, decode: name(to)?, left_s: left.as_secs_f64() })
    };
    let mean = links.mean();
    Some(Links {
        learned: links.is_learned(),
        fixed_ms: mean.fixed_ms,
        ms_per_token: mean.ms_per_token,
        cut: links.cut_pairs(now).filter_map(cut).collect(),
    })
}

fn replica(member: &Member, status: meridian_routing::Status) -> Option<Replica> {
    let found = member.found();
    let engine = found.engine.map_or(member.spec.engine.name(), |engine| engine.name);
    Some(Replica {
        id: member.id.0,
        name: member.name.to_string(),
        region: member.region.to_str().unwrap_or_default().to_owned(),
        trouble: member.trouble(),
        url: member.spec.url.clone(),
        engine: engine.to_owned(),
        state: standing::word(status.state, !found.models.is_empty()).to_owned(),
        standing: member.standing(),
        role: member.spec.role.name().to_owned(),
        transfer: member.transfer_of(found.engine).map(|protocol| protocol.name.to_owned()),
        version: found.version,
        revision: member.spec.revision.clone(),
        models: found.models,
        pending: status.row.pending,
        running: status.row.running - status.row.failed,
        outstanding: status.own_outstanding,
        of_siblings: status.of_siblings,
        kv_used: status.row.kv_used,
        dispatched: status.totals.dispatched,
        done: status.totals.done,
        failed: status.totals.failed,
        full: status.totals.full,
        prompt_tokens: status.totals.prompt_tokens,
        cached_tokens: status.totals.cached_tokens,
        breaker: status.breaker.name().to_owned(),
        drift: status.drift,
        ms_per_token: status.row.ms_per_token,
        trust: status.row.trust,
        front_tokens: status.row.front_tokens,
        utilisation: Some(status.row.utilisation).filter(|u| u.is_finite()).unwrap_or_default(),
        held_tokens: status.row.held_tokens,
        moving_tokens: status.row.moving_tokens,
        fetched: status.totals.fetched,
        fetched_tokens: status.totals.fetched_tokens,
        transfers: member.transfers(),
    })
}
