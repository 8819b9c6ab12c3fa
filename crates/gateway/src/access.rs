//! Who may come in, and where their requests may be served: what of the configuration file counts
//! anew while the gateway serves.
//!
//! A key is given or taken back, and a rule made, while requests come; the rest of the file is for
//! the next start. A request keeps to what was in force when it came. The file is looked at as
//! certificates are, and a change counts once it has stood still for a look: the beginning of a file
//! is a file too, and one without its last rules. For the same reason the last tenant and the last
//! rule go with a restart only.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use meridian_tls::{Look, Reread, Unread};
use meridian_wire::config::{self, ConfigError, Gateway as Config, TellClients};

use crate::residency::Rules;
use crate::shared::Shared;
use crate::tenants::Tenants;

/// A configuration, and the file that it was read from, where it counts anew when that changes.
#[derive(Clone, Debug)]
pub struct Given {
    /// What the gateway begins with.
    pub config: Config,
    /// Where it stands.
    pub file: Option<PathBuf>,
}

impl From<Config> for Given {
    fn from(config: Config) -> Given {
        Given { config, file: None }
    }
}

/// The sections `tenants`, `tell_clients` and `residency`.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) tenants: Tenants,
    /// Answers tell clients of prefix matches and of the fleet.
    pub(crate) tells: bool,
    pub(crate) rules: Rules,
    /// As they were written.
    pub(crate) written: (Vec<config::Tenant>, config::Residency),
    /// Other sections that are not as they were when the gateway started.
    others: Vec<String>,
}

impl Access {
    pub(crate) fn new(config: &Config) -> Result<Access, ConfigError> {
        Ok(Access {
            tenants: Tenants::new(&config.tenants),
            tells: config.tells_clients() == TellClients::All,
            rules: Rules::new(&config.residency)?,
            written: (config.tenants.clone(), config.residency.clone()),
            others: Vec::new(),
        })
    }

    /// Of a file that has changed since the gateway `started`; `had` tells whether there were tenants,
    /// and rules.
    fn again(file: &Path, started: &Config, had: &[AtomicBool; 2]) -> Result<Access, Unread> {
        let unread = |error: &dyn std::fmt::Display| Unread(format!("{}: {error}", file.display()));
        let yaml = std::fs::read_to_string(file).map_err(|e| unread(&e))?;
        let config = Config::read(&yaml).map_err(|e| unread(&e))?;
        let sections = ["tenants", "residency.rules"];
        for ((section, had), has) in sections.into_iter().zip(had).zip(has(&config)) {
            if had.fetch_or(has, Ordering::Relaxed) && !has {
                let remedy = "leave one, or restart the gateway without any";
                return Err(unread(&format_args!("{section}: none is left; {remedy}")));
            }
        }
        let access = Access::new(&config).map_err(|e| unread(&e))?;
        Ok(Access { others: others(started, &config), ..access })
    }
}

/// Whether there are tenants, and rules.
fn has(config: &Config) -> [bool; 2] {
    [!config.tenants.is_empty(), !config.residency.rules.is_empty()]
}

/// The sections besides those that count anew in which two configurations differ.
fn others(a: &Config, b: &Config) -> Vec<String> {
    let fields = |config: &Config| match serde_json::to_value(config) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (a, b) = (fields(a), fields(b));
    let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let differs = |name: &&String| a.get(*name) != b.get(*name);
    let counts = |name: &&String| ["tenants", "tell_clients", "residency"].contains(&name.as_str());
    names.into_iter().filter(|name| differs(name) && !counts(name)).cloned().collect()
}

/// What is in force.
pub(crate) struct AccessNow(Reread<Access>);

impl AccessNow {
    pub(crate) fn new(config: &Config, file: Option<&Path>) -> Result<AccessNow, ConfigError> {
        let first = Access::new(config)?;
        let paths = file.map(Path::to_owned).into_iter().collect();
        let (file, started) = (file.map(Path::to_owned).unwrap_or_default(), config.clone());
        let had = has(config).map(AtomicBool::new);
        let again = move || Access::again(&file, &started, &had);
        Ok(AccessNow(Reread::new(paths, first, again).settled()))
    }

    pub(crate) fn now(&self) -> Arc<Access> {
        self.0.now()
    }

    /// Looks at the file.
    pub(crate) fn look(&self, shared: &Shared) {
        match self.0.look() {
            Look::Same => {}
            Look::New => {
                let access = self.now();
                let (tenants, residency) = &access.written;
                shared.residency.given(residency, &access.rules);
                let (tenants, rules) = (tenants.len(), residency.rules.len());
                tracing::info!(tenants, rules, "tenants and residency rules count anew");
                if !access.others.is_empty() {
                    let sections = access.others.join(", ");
                    tracing::warn!(sections, "the file has other changes; restart for them");
                }
            }
            Look::Bad(problem) => {
                tracing::error!(%problem, "the file can't be used; what it said before goes on");
            }
        }
    }
}
