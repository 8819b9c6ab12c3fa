//! The configuration in force, in the forms in which requests use it.
//!
//! A reload replaces it as a whole ([`crate::reload`]). A request keeps the one that was in force
//! when it arrived.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use meridian_config::{self as config, ConfigError, Gateway as Config, TellClients};
use meridian_routing::Config as Routing;
use meridian_tls::FileError;
use tokio::sync::Notify;

use crate::certificates::ClientTls;
use crate::http::cors::Cors;
use crate::http::limits::Limits;
use crate::inputs::models::{Models, UseOfModels};
use crate::inputs::oidc::{Issuers, KeptIssuers};
use crate::inputs::rate::RatesByTenant;
use crate::inputs::residency::Rules;
use crate::inputs::salts::Salts;
use crate::inputs::tenants::Tenants;
use crate::lock::{Mutex, RwLock};
use crate::settings::Settings;

/// A configuration, the file it was read from, and a trigger for a reload.
#[derive(Clone, Debug)]
pub struct Given {
    /// The configuration at the start.
    pub config: Config,
    /// Its file, which is polled for changes; none for a pipe.
    pub file: Option<PathBuf>,
    /// When notified, everything that can be reloaded is reloaded at once.
    pub reload: Arc<Notify>,
    /// The commit that the program was built from, for its metrics; empty if unknown.
    pub commit: String,
}

impl From<Config> for Given {
    fn from(config: Config) -> Given {
        Given { config, file: None, reload: Arc::default(), commit: String::new() }
    }
}

/// The configuration in force.
pub(crate) struct InForce {
    pub(crate) config: Config,
    pub(crate) settings: Arc<Settings>,
    pub(crate) limits: Limits,
    /// The machine's settings.
    pub(crate) routing: Routing,
    pub(crate) tenants: Tenants,
    pub(crate) salts: Salts,
    /// Limits of models.
    pub(crate) models: Models,
    /// The models that engines serve at times, by the file.
    pub(crate) expected: BTreeSet<String>,
    /// Whether answers tell clients about prefix matches and the fleet.
    pub(crate) tells: bool,
    pub(crate) rules: Rules,
    /// The collector of traces, and the share of the requests for it.
    pub(crate) traces: Option<Arc<config::Traces>>,
    /// Web pages that may read answers; if absent, none may.
    pub(crate) cors: Option<Cors>,
    /// TLS on the client port; plain HTTP if absent.
    pub(crate) client_tls: Option<Arc<ClientTls>>,
    /// Keys of the file that have changed and need a restart.
    pub(crate) waiting: Vec<String>,
}

/// State that outlives reloads.
pub(crate) struct Kept {
    /// The tenants' current use of their limits.
    rates: Arc<RatesByTenant>,
    /// The same of models.
    models: UseOfModels,
    /// The same of the gateway: requests, bodies and connections now.
    limits: Limits,
    /// The issuers of tokens, with their keys.
    pub(crate) issuers: Arc<KeptIssuers>,
    /// Keys the salts, if there is no secret.
    seed: u64,
}

impl Kept {
    pub(crate) fn new(config: &Config, seed: u64, rates: Arc<RatesByTenant>) -> Kept {
        Kept {
            rates,
            models: UseOfModels::default(),
            limits: Limits::new(&config.limits),
            issuers: Arc::default(),
            seed,
        }
    }
}

impl InForce {
    pub(crate) fn new(
        config: Config,
        kept: &Kept,
        client_tls: Option<Arc<ClientTls>>,
    ) -> Result<InForce, ConfigError> {
        Ok(InForce {
            settings: Arc::new(Settings::new(&config)),
            limits: kept.limits.limited(&config.limits),
            routing: config.routing()?,
            tenants: Tenants::new(&config.tenants, &kept.rates)
                .with_issuers(Issuers::new(&config.oidc, &kept.issuers)),
            salts: Salts::new(&config, kept.seed),
            models: kept.models.of(&config.models, &kept.rates),
            expected: config.expected_models(),
            tells: config.tells_clients() == TellClients::All,
            rules: Rules::new(&config.residency)?,
            traces: config.traces.clone().map(Arc::new),
            cors: config.cors.as_ref().map(Cors::new),
            client_tls,
            waiting: Vec::new(),
            config,
        })
    }

    /// The port's certificate for another configuration; read again only if that names other files.
    ///
    /// # Errors
    /// If a file cannot be used.
    pub(crate) fn tls_for(&self, config: &Config) -> Result<Option<Arc<ClientTls>>, FileError> {
        match &config.tls {
            tls if *tls == self.config.tls => Ok(self.client_tls.clone()),
            tls => Ok(tls.as_ref().map(ClientTls::load).transpose()?.map(Arc::new)),
        }
    }
}

/// The configuration in force, for all parts that read it. A part that needs a value reads it here
/// when it needs it; what follows from the file is made with the snapshot.
pub(crate) struct ConfigNow {
    in_force: RwLock<Arc<InForce>>,
    /// What the newest reload could not apply.
    pub(crate) troubles: Troubles,
}

/// The parts whose newest reload failed, with the reason.
#[derive(Default)]
pub(crate) struct Troubles(Mutex<BTreeMap<String, String>>);

impl Troubles {
    /// Notes why a part can't be reloaded; none if it can.
    pub(crate) fn note(&self, part: &str, problem: Option<String>) {
        let mut troubles = self.0.lock();
        match problem {
            Some(problem) => drop(troubles.insert(part.to_owned(), problem)),
            None => drop(troubles.remove(part)),
        }
    }

    /// Forgets parts that are no longer there.
    pub(crate) fn keep(&self, is_there: impl Fn(&str) -> bool) {
        self.0.lock().retain(|part, _| is_there(part));
    }

    /// One line for each, for the status page.
    pub(crate) fn read(&self) -> Vec<String> {
        self.0.lock().iter().map(|(part, problem)| format!("{part}: {problem}")).collect()
    }
}

impl ConfigNow {
    pub(crate) fn new(first: InForce) -> ConfigNow {
        ConfigNow { in_force: RwLock::new(Arc::new(first)), troubles: Troubles::default() }
    }

    pub(crate) fn now(&self) -> Arc<InForce> {
        self.in_force.read().clone()
    }

    /// One that stays, for a program that serves nothing.
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub(crate) fn fixed(config: &Config) -> Result<Arc<ConfigNow>, ConfigError> {
        let in_force = InForce::new(config.clone(), &Kept::new(config, 0, Arc::default()), None)?;
        Ok(Arc::new(ConfigNow::new(in_force)))
    }

    pub(crate) fn set(&self, next: Arc<InForce>) {
        let mut now = self.in_force.write();
        let (before, after) = (&now.settings.region, &next.settings.region);
        assert_eq!(before, after, "peers and records know a gateway by its region at the start");
        *now = next;
    }
}
