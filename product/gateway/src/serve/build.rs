//! Builds a gateway from its parts, each with the handles that it needs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use meridian_base::{ReplicaId, keyed};
use meridian_config::Gateway as Config;
use meridian_routing::Routing;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::admin::explain::Explain;
use crate::admin::page::Feed;
use crate::admin::pages::Admin;
use crate::admin::sessions::Sessions;
use crate::admin::status::StatusPage;
use crate::admin::tls::AdminTls;
use crate::check::{self, Parts};
use crate::draining::Draining;
use crate::error::Error;
use crate::ids::Ids;
use crate::inputs::Inputs;
use crate::inputs::fingerprint::ReadingNow;
use crate::inputs::in_force::{ConfigNow, InForce, Kept};
use crate::inputs::residency::Residency;
use crate::inputs::used_kv::UsedKv;
use crate::joining::Joining;
use crate::machine::driver::Driver;
use crate::machine::ratios::Ratios;
use crate::metrics::Metrics;
use crate::peers::all::Peers;
use crate::policy::PolicyNow;
use crate::record;
use crate::registry::Here;
use crate::registry::following::Following;
use crate::reload::Reloaded;
use crate::reload::file::{Adoption, ConfigFile};
use crate::reload::followers::followers;
use crate::replicas::credentials::Credentials;
use crate::replicas::fleet::Fleet;
use crate::replicas::membership::Replicas;
use crate::replicas::probes::Prober;
use crate::replicas::questions::Questions;
use crate::replicas::region::Region;
use crate::replicas::upstream::Upstream;
use crate::request::plane::DataPlane;
use crate::sources::Sources;

/// All parts of a gateway.
pub(super) struct Gateway {
    /// The configuration at the start.
    pub(super) config: Arc<Config>,
    file: Option<PathBuf>,
    pub(super) kept: Arc<Kept>,
    commit: String,
    replicas: Arc<Replicas>,
    pub(super) registry: Option<Arc<Following>>,
    pub(super) sources: Arc<Sources>,
    /// For replicas of this region, for everything but clients' requests.
    pub(super) near: Upstream,
    pub(super) plane: Arc<DataPlane>,
    pub(super) admin_tls: Option<Arc<AdminTls>>,
    questions: Arc<Questions>,
    policy: Arc<PolicyNow>,
    credentials: Arc<Credentials>,
}

impl Gateway {
    /// Builds a gateway that does nothing yet. `wishes` receives the replicas that the machine
    /// wants probed.
    pub(super) fn build(
        config: Config,
        commit: String,
        file: Option<&Path>,
        wishes: mpsc::UnboundedSender<ReplicaId>,
    ) -> Result<Gateway, Error> {
        let routing = config.routing()?;
        let of_peers = config.peers.as_ref().and_then(|peers| peers.secret.as_ref());
        let seed = match config.secret.as_ref().or(of_peers) {
            Some(secret) => keyed(0, secret.expose().as_bytes()),
            None => random_seed(),
        };
        let (name, params) = (routing.policy.name, &routing.params);
        let block_bytes = (routing.policy.index)(params).map(|spec| spec.block_bytes);
        let reading = ReadingNow::new(seed, config.resume.is_some(), &routing);
        let reading = Arc::new(reading);
        let Parts { peers, tls, admin_tls, registry, credentials } =
            Parts::make(&config, seed, block_bytes, name)?;
        warn(&config);
        let over = CancellationToken::new();
        let fleet = Arc::new(Fleet::new(&config.region, credentials.clone(), over.clone()));
        let outbox = peers.as_ref().map(|peers| peers.outbox.clone());
        let handover = peers.as_ref().map(|peers| peers.handover.clone());
        let routing = Routing::new(routing, seed);
        let driver = Arc::new(Driver::new(routing, wishes, (fleet.clock, fleet.clone()), outbox));
        let joining = Joining::new(peers.as_ref().is_some_and(|peers| peers.has_siblings()));
        let draining = Draining::default();
        let region = Arc::new(Region { driver, fleet, draining, joining, over, seed });
        let rates = peers.as_ref().map(|peers| peers.rates.clone()).unwrap_or_default();
        let kept = Arc::new(Kept::new(&config, seed, rates));
        let in_force = InForce::new(config.clone(), &kept, tls.map(Arc::new))?;
        let config_now = Arc::new(ConfigNow::new(in_force));
        let far = Upstream::far(config_now.clone());
        let near = Upstream::new(config_now.clone());
        let questions = Questions::new(config_now.clone(), near.clone(), far.clone());
        let questions = Arc::new(questions);
        let policy = PolicyNow::new(&config, region.clone(), reading.clone(), handover.clone());
        let plane = data_plane(config_now.clone(), region.clone(), peers, reading, far)?;
        let pins = plane.inputs.pins.clone();
        let replicas = Replicas::new(region, questions.clone(), pins, handover, config_now);
        let replicas = Arc::new(replicas);
        let sources = Sources::new(replicas.clone(), registry.clone());
        Ok(Gateway {
            admin_tls: admin_tls.map(Arc::new),
            policy: Arc::new(policy),
            plane: Arc::new(plane),
            config: Arc::new(config),
            file: file.map(Path::to_owned),
            kept,
            commit,
            replicas,
            registry,
            sources: Arc::new(sources),
            near,
            questions,
            credentials,
        })
    }

    pub(super) fn region(&self) -> &Arc<Region> {
        &self.plane.region
    }

    pub(super) fn prober(&self) -> Prober {
        Prober {
            region: self.region().clone(),
            questions: self.questions.clone(),
            metrics: self.plane.metrics.clone(),
        }
    }

    pub(super) fn reloaded(&self) -> Reloaded {
        let file = self.file.clone().map(|path| ConfigFile::new(path, self.adoption()));
        Reloaded {
            file,
            issuers: self.kept.issuers.clone(),
            plane: self.plane.clone(),
            admin_tls: self.admin_tls.clone(),
            registry: self.registry.clone(),
            sources: self.sources.clone(),
            credentials: self.credentials.clone(),
        }
    }

    fn adoption(&self) -> Adoption {
        Adoption {
            plane: self.plane.clone(),
            kept: self.kept.clone(),
            credentials: self.credentials.clone(),
            followers: followers(&self.plane, self.policy.clone(), self.sources.clone()),
        }
    }

    pub(super) fn admin(&self) -> Arc<Admin> {
        let status = Arc::new(StatusPage {
            commit: self.commit.clone(),
            region: self.region().clone(),
            residency: self.plane.inputs.residency.clone(),
            issuers: self.kept.issuers.clone(),
            peers: self.plane.peers.clone(),
            registry: self.registry.clone(),
            sources: self.sources.clone(),
            config: self.plane.inputs.config.clone(),
            admin_tls: self.admin_tls.clone(),
        });
        let explain = self.plane.explain.clone();
        let page = Feed::new(build(&self.commit), status.clone(), explain);
        Arc::new(Admin {
            page: Arc::new(page),
            status,
            explain: self.plane.explain.clone(),
            recent: self.plane.records.recent.clone(),
            replicas: self.replicas.clone(),
            config: self.plane.inputs.config.clone(),
            policy: self.policy.clone(),
            sessions: Sessions::default(),
            metrics: self.plane.metrics.clone(),
        })
    }

    pub(super) fn here(&self) -> Here {
        Here {
            replicas: self.replicas.clone(),
            policy: self.policy.clone(),
            residency: self.plane.inputs.residency.clone(),
            peers: self.plane.peers.clone(),
        }
    }
}

/// The shared parts for answering requests.
fn data_plane(
    config_now: Arc<ConfigNow>,
    region: Arc<Region>,
    peers: Option<Arc<Peers>>,
    reading: Arc<ReadingNow>,
    far: Upstream,
) -> Result<DataPlane, Error> {
    let in_force = config_now.now();
    let (config, seed) = (&in_force.config, reading.seed);
    let residency = Residency::new(region.driver.clone(), config, &in_force.rules);
    let models = &region.fleet.models;
    let ids = Arc::new(Ids::new(random_seed(), seed));
    let explain = Explain::new(region.clone(), peers.clone(), ids.clone());
    let metrics = Arc::new(Metrics::new(models.clone()));
    let random = [random_seed(), random_seed()];
    let records = record::start(config, models, random, |sink| metrics.records_dropped(sink))?;
    Ok(DataPlane {
        inputs: Arc::new(Inputs {
            config: config_now,
            reading,
            ratios: Ratios::new(),
            pins: Arc::default(),
            residency: Arc::new(residency),
            used_kv: UsedKv::default(),
        }),
        region,
        peers,
        far,
        metrics,
        records,
        ids,
        explain: Arc::new(explain),
    })
}

/// Logs problems that do not prevent a start.
fn warn(config: &Config) {
    for problem in check::doubts(config) {
        tracing::error!(problem, "the gateway starts with this problem");
    }
    for hint in config.hints() {
        tracing::warn!(hint, "a setting is probably a mistake");
    }
    // As for the seed above, a secret for the peers will do.
    let of_peers = config.peers.as_ref().and_then(|peers| peers.secret.as_ref());
    let is_keyed = config.secret.is_some() || of_peers.is_some();
    if config.peers.is_some() && !is_keyed {
        tracing::warn!(
            "no `secret` is set, so prefixes are not shared with peers; set the same one on all gateways"
        );
    }
    if config.journal.is_some() && !is_keyed {
        tracing::warn!(
            "no `secret` is set, so the journal's hashes change with each start; set one to compare requests across starts"
        );
    }
    if config.identifies_clients() && config.tls.is_none() && !config.listen.ip().is_loopback() {
        tracing::warn!(
            "clients send their keys or tokens in plain HTTP; set `tls`, or end TLS in front of this gateway"
        );
    }
    if !config.identifies_clients()
        && config.cors.as_ref().is_some_and(meridian_config::Cors::is_open)
    {
        tracing::warn!(
            "cors.origins is `*` and no tenants are configured: every page that a browser in this network opens can use the gateway; list the origins, or add tenants"
        );
    }
}

/// A number that can't be guessed from outside, from the process's own randomness.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// The version and the commit, for people.
fn build(commit: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    if commit.is_empty() { version.to_owned() } else { format!("{version} ({commit})") }
}
