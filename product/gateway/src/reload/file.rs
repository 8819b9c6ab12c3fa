//! The gateway's own file: read again, checked, and adopted as a whole.
//!
//! A file is adopted only if it is valid, its certificates can be used and its logs can be opened;
//! otherwise everything stays as it was. Keys that need a restart keep their values, and are named.
//! Since a half-written file may be valid and lack its last sections, a poll adopts a change only
//! after two polls have seen it, and no reload removes the last tenant, issuer, rule, token or
//! replica.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use meridian_config::{Gateway as Config, changed_keys};
use meridian_tls::{Look, Reread, Unread};

use crate::descriptors::check_descriptors;
use crate::error::Error;
use crate::inputs::in_force::{InForce, Kept};
use crate::inputs::oidc;
use crate::record;
use crate::reload::followers::Follower;
use crate::replicas::credentials::Credentials;
use crate::request::plane::DataPlane;

/// What a new file is checked with, and those that follow it.
pub(crate) struct Adoption {
    pub(crate) plane: Arc<DataPlane>,
    pub(crate) kept: Arc<Kept>,
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) followers: Vec<Arc<dyn Follower>>,
}

/// The file.
pub(crate) struct ConfigFile(Reread<()>);

impl ConfigFile {
    pub(crate) fn new(path: PathBuf, adoption: Adoption) -> ConfigFile {
        let from = path.clone();
        ConfigFile(Reread::made(vec![path], (), move || adoption.read(&from)).settled())
    }

    /// Polls the file, and adopts it if it changed; with `now`, in any case and without waiting for
    /// a change to settle.
    pub(crate) fn look(&self, now: bool) -> Look {
        if now { self.0.reload() } else { self.0.look() }
    }
}

impl Adoption {
    fn read(&self, path: &Path) -> Result<(), Unread> {
        let unread = |error: &dyn std::fmt::Display| Unread(format!("{}: {error}", path.display()));
        let yaml = meridian_files::read_text(path, meridian_files::MOST)
            .map_err(|error| unread(&error))?;
        let file = Config::read(&yaml).map_err(|error| unread(&error))?;
        let before = self.plane.inputs.config.now();
        if let Some(section) = emptied(&before.config, &file) {
            let remedy = "keep one, or restart the gateway to remove all";
            return Err(unread(&format_args!("{section}: the file has none; {remedy}")));
        }
        let (config, waiting) = before.config.adopt(&file);
        let problems = config.problems();
        if !problems.is_empty() {
            let (waiting, problems) = (waiting.join(", "), problems.join("; "));
            return Err(unread(&format_args!(
                "{problems}; this is with the earlier values of {waiting}, which need a restart"
            )));
        }
        let changed = changed_keys(&before.config, &config).join(", ");
        self.adopt(&before, config, waiting).map_err(|error| unread(&error))?;
        if !changed.is_empty() {
            tracing::info!(changed, "the configuration changed");
        }
        Ok(())
    }

    /// Adopts a configuration, or nothing of it. Nothing fails after the logs are open.
    fn adopt(&self, before: &InForce, config: Config, waiting: Vec<String>) -> Result<(), Error> {
        check_descriptors(&config)?;
        config.routing()?;
        let client_tls = before.tls_for(&config)?;
        let credentials = credentials(&before.config, &config)?;
        let mut problems = record::problems(&config);
        problems.extend(oidc::problems(&config));
        if problems.is_empty()
            && let Err(Unread(problem)) = self.plane.records.configure(&config)
        {
            problems.push(problem);
        }
        if !problems.is_empty() {
            return Err(Error::Config(problems.into()));
        }
        let next = Arc::new(InForce { waiting, ..InForce::new(config, &self.kept, client_tls)? });
        if let Some(credentials) = credentials {
            self.credentials.adopt(&credentials);
        }
        self.followers.iter().for_each(|follower| follower.adopt(&next));
        Ok(())
    }
}

/// The credentials of a configuration, if they differ from those before.
fn credentials(before: &Config, config: &Config) -> Result<Option<Credentials>, Error> {
    if (&before.engine_key, &before.credentials) == (&config.engine_key, &config.credentials) {
        return Ok(None);
    }
    let loaded = Credentials::load(config);
    loaded.map(Some).map_err(|errors| Error::Several(errors.into_iter().map(Error::from).collect()))
}

/// The first section that had entries and has none.
fn emptied(before: &Config, file: &Config) -> Option<&'static str> {
    fn counts(config: &Config) -> [(&'static str, usize); 5] {
        let replicas = config.replicas.len() + config.discovery.len();
        [
            ("tenants", config.tenants.len()),
            ("oidc", config.oidc.len()),
            ("residency.rules", config.residency.rules.len()),
            ("admin_access.tokens", config.admin_access.tokens.len()),
            ("replicas", replicas),
        ]
    }
    let both = counts(before).into_iter().zip(counts(file));
    both.into_iter().find(|((_, had), (_, has))| *had > 0 && *has == 0).map(|((name, _), _)| name)
}
