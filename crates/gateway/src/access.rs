//! Tenants, residency rules and traces: the sections of the configuration file that support hot
//! reload.
//!
//! Keys and rules are added and removed while requests arrive; the rest of the file needs a
//! restart. A request keeps the rules that were in force when it arrived. The file is polled like
//! the certificates, and a change takes effect after two polls have seen it, since a half-written
//! file may be readable and lack its last rules. SIGHUP skips that wait. For the same reason,
//! removing the last tenant or the last rule needs a restart.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use meridian_tls::{Look, Reread, Unread};
use meridian_wire::config::{self, ConfigError, Gateway as Config, TellClients};
use tokio::sync::Notify;

use crate::admin::door::Door;
use crate::inputs::rate::RatesByTenant;
use crate::inputs::residency::{Residency, Rules};
use crate::inputs::tenants::Tenants;
use crate::machine::driver::Driver;

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

/// The sections `tenants`, `tell_clients`, `residency`, `admin_access` and `traces`.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) tenants: Tenants,
    /// Whether answers tell clients about prefix matches and the fleet.
    pub(crate) tells: bool,
    pub(crate) rules: Rules,
    /// The collector of traces, and the share of the requests for it.
    pub(crate) traces: Option<Arc<config::Traces>>,
    /// Decides which callers the admin port admits.
    pub(crate) door: Door,
    /// The sections as written.
    pub(crate) written: Written,
    others: Vec<String>,
}

/// The sections as the file has them.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) tenants: Vec<config::Tenant>,
    pub(crate) residency: config::Residency,
    pub(crate) admin_access: config::AdminAccess,
}

impl Access {
    /// `kept` has the tenants' current use of their limits.
    pub(crate) fn new(config: &Config, kept: &RatesByTenant) -> Result<Access, ConfigError> {
        let rules = Rules::new(&config.residency)?;
        Ok(Access {
            tenants: Tenants::new(&config.tenants, kept),
            tells: config.tells_clients() == TellClients::All,
            rules,
            traces: config.traces.clone().map(Arc::new),
            door: Door::new(&config.admin_access),
            written: Written {
                tenants: config.tenants.clone(),
                residency: config.residency.clone(),
                admin_access: config.admin_access.clone(),
            },
            others: Vec::new(),
        })
    }

    /// Sections of the file that have changed since the gateway started, and need a restart.
    pub(crate) fn others(&self) -> &[String] {
        &self.others
    }

    /// Reads a file that has changed since the gateway `started`; `had` says whether there have
    /// been tenants, rules and tokens. The admin port still listens as at the start, so the
    /// certificates of the start and the file's tokens control access to it.
    fn again(
        file: &Path,
        started: &Config,
        had: &[AtomicBool; 3],
        kept: &RatesByTenant,
    ) -> Result<Access, Unread> {
        let unread = |error: &dyn std::fmt::Display| Unread(format!("{}: {error}", file.display()));
        let yaml = std::fs::read_to_string(file).map_err(|e| unread(&e))?;
        let mut config = Config::read(&yaml).map_err(|e| unread(&e))?;
        let others = others(started, &config);
        config.admin_access.tls.clone_from(&started.admin_access.tls);
        let sections = ["tenants", "residency.rules", "admin_access.tokens"];
        let has = has(&config);
        for ((section, had), has) in sections.into_iter().zip(had).zip(has) {
            if had.load(Ordering::Relaxed) && !has {
                let remedy = "keep one, or restart the gateway to remove all";
                return Err(unread(&format_args!("{section}: the file has none; {remedy}")));
            }
        }
        let access = Access::new(&config, kept).map_err(|e| unread(&e))?;
        // A refused file has no effect, so nothing of it has to stay.
        for (had, has) in had.iter().zip(has).filter(|(_, has)| *has) {
            had.store(has, Ordering::Relaxed);
        }
        Ok(Access { others, ..access })
    }
}

/// Whether there are tenants, rules and tokens.
fn has(config: &Config) -> [bool; 3] {
    let tokens = &config.admin_access.tokens;
    [!config.tenants.is_empty(), !config.residency.rules.is_empty(), !tokens.is_empty()]
}

/// The sections that differ between two configurations, without those that can be reloaded.
fn others(a: &Config, b: &Config) -> Vec<String> {
    let mut sections = config::changed_sections(a, b);
    sections.retain(|name| {
        !["tenants", "tell_clients", "residency", "admin_access", "traces"].contains(&name.as_str())
    });
    if a.admin_access.tls != b.admin_access.tls {
        sections.push("admin_access.tls".to_owned());
    }
    sections
}

/// The sections in force.
pub(crate) struct AccessNow {
    reread: Reread<Access>,
    has_file: bool,
}

impl AccessNow {
    pub(crate) fn new(config: &Config, file: Option<&Path>) -> Result<AccessNow, ConfigError> {
        let kept = RatesByTenant::default();
        let first = Access::new(config, &kept)?;
        let paths = file.map(Path::to_owned).into_iter().collect();
        let has_file = file.is_some();
        let (file, started) = (file.map(Path::to_owned).unwrap_or_default(), config.clone());
        let had = has(config).map(AtomicBool::new);
        let again = move || Access::again(&file, &started, &had, &kept);
        Ok(AccessNow { reread: Reread::made(paths, first, again).settled(), has_file })
    }

    pub(crate) fn now(&self) -> Arc<Access> {
        self.reread.now()
    }

    /// Whether there is a file to read again.
    pub(crate) fn has_file(&self) -> bool {
        self.has_file
    }

    /// Polls the file and reloads it if it changed; with `now`, in any case and without waiting for
    /// a change to settle.
    pub(crate) fn look(&self, residency: &Residency, driver: &Driver, now: bool) -> Look {
        let look = if now { self.reread.reload() } else { self.reread.look() };
        if now || look == Look::New {
            let access = self.now();
            residency.given(driver, &access.written.residency, &access.rules);
        }
        look
    }
}
