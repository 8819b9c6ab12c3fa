//! Hot reload of the certificates: by a poll every 2 seconds, and at once on request (SIGHUP). The
//! rest of the configuration needs a restart; a requested reload logs which parts of it changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use meridian_config::{Control as Config, changed_sections};
use meridian_tls::{LOOK, Look};
use tokio::sync::Notify;

use super::Shared;
#[cfg(feature = "etcd")]
use crate::chosen::Chosen;

/// A configuration, the file it was read from, and a trigger for a reload.
#[derive(Clone, Debug)]
pub struct Given {
    /// The configuration at the start.
    pub config: Config,
    /// Its file; none for a pipe.
    pub file: Option<PathBuf>,
    /// When notified, everything that can be reloaded is reloaded at once.
    pub reload: Arc<Notify>,
}

impl From<Config> for Given {
    fn from(config: Config) -> Given {
        Given { config, file: None, reload: Arc::default() }
    }
}

/// Polls the certificates, and reloads at once on request; never returns.
pub(super) async fn keep(shared: Arc<Shared>, given: Given) {
    loop {
        let now = tokio::select! {
            () = tokio::time::sleep(LOOK) => false,
            () = given.reload.notified() => true,
        };
        let look = shared.tls.as_ref().map(|tls| tls.look(now));
        match &look {
            Some(Look::New) => tracing::info!("certificates reloaded"),
            Some(Look::Bad(problem)) => {
                tracing::error!(%problem, "certificates cannot be reloaded; the old ones stay in use");
            }
            Some(Look::Same) if now => tracing::info!("certificates did not change"),
            None if now => tracing::info!("there are no certificates to reload"),
            Some(Look::Same) | None => {}
        }
        #[cfg(feature = "etcd")]
        if let Chosen::Etcd(etcd) = shared.registry.store() {
            match etcd.look(now) {
                Look::New if !now => tracing::info!("certificates for etcd reloaded"),
                Look::Bad(problem) => {
                    tracing::error!(%problem, "certificates for etcd cannot be reloaded; the old ones stay in use");
                }
                Look::New | Look::Same => {}
            }
        }
        if now {
            compare(&given.config, given.file.as_deref());
        }
    }
}

/// Logs which other parts of the file changed.
fn compare(started: &Config, file: Option<&Path>) {
    let Some(file) = file else {
        tracing::info!("the configuration came from a pipe, so a reload does not read it again");
        return;
    };
    let read =
        meridian_files::read_text(file, meridian_files::MOST).map_err(|error| error.to_string());
    match read.and_then(|yaml| Config::read(&yaml).map_err(|error| error.to_string())) {
        Err(problem) => {
            let file = file.display();
            tracing::error!(%file, problem, "the file is invalid; the current configuration stays in use");
        }
        Ok(now) => match changed_sections(started, &now).join(", ") {
            none if none.is_empty() => {
                tracing::info!("the rest of the configuration did not change")
            }
            sections => {
                tracing::warn!(
                    sections,
                    "these sections of the file changed; restart the control plane to apply them"
                );
            }
        },
    }
}
