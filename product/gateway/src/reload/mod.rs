//! Hot reload: the gateway's file, all certificates, and the files of `discovery`. SIGHUP also opens
//! the access log and the journal again.
//!
//! There are two triggers. A poll every 2 seconds compares the files and logs changes. SIGHUP reads
//! all of them at once, including those whose change the poll would wait to settle, and logs every
//! part: changed, unchanged, in need of a restart, or invalid. Invalid files leave the current
//! state in force, and no request or connection ends because of a reload. A separate thread reads
//! the files, and each only for a limited time: a file system that does not answer delays only
//! reloads, and a file that does not stops none of the others.

pub(crate) mod file;
pub(crate) mod followers;

use std::sync::Arc;
use std::time::Duration;

use meridian_tls::{LOOK, Look, Unread};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::admin::tls::AdminTls;
use crate::inputs::in_force::Troubles;
use crate::inputs::oidc::KeptIssuers;
use crate::registry::following::Following;
use crate::replicas::credentials::Credentials;
use crate::request::plane::DataPlane;
use crate::sources::{self, Sources};
use file::ConfigFile;

/// A reload that takes longer is reported. A file that is not read in time fails on its own.
const LONG: Duration = Duration::from_secs(30);
/// The part that stands for a reload as a whole.
const RELOAD: &str = "reload";

/// Everything that can be reloaded.
pub(crate) struct Reloaded {
    /// None if the configuration came from a pipe.
    pub(crate) file: Option<ConfigFile>,
    pub(crate) plane: Arc<DataPlane>,
    /// Their keys are fetched again on SIGHUP.
    pub(crate) issuers: Arc<KeptIssuers>,
    pub(crate) admin_tls: Option<Arc<AdminTls>>,
    pub(crate) registry: Option<Arc<Following>>,
    pub(crate) sources: Arc<Sources>,
    pub(crate) credentials: Arc<Credentials>,
}

impl Reloaded {
    fn config(&self, now: bool) -> Vec<Part> {
        self.file.iter().map(|file| Part::new("configuration", file.look(now))).collect()
    }
}

/// One part that can be reloaded, and the result.
struct Part {
    name: String,
    look: Look,
}

impl Part {
    fn new(name: impl Into<String>, look: Look) -> Part {
        Part { name: name.into(), look }
    }
}

/// Polls the files, and reloads at once when `asked`; never returns. Signals during a reload cause
/// one further reload.
pub(crate) async fn keep(all: Reloaded, asked: Arc<Notify>) {
    // The file was read before the gateway was built, and may have changed since.
    let all = Arc::new(all);
    let first = apart(&all, |all| all.config(true)).await;
    problems(&first);
    note(&all.plane.inputs.config.troubles, &first, true);
    loop {
        let now = tokio::select! {
            () = tokio::time::sleep(LOOK) => false,
            () = asked.notified() => true,
        };
        let before = all.plane.inputs.config.now();
        let mut parts = apart(&all, move |all| parts(all, now)).await;
        let changed = |part: &Part| part.look == Look::New;
        note(&all.plane.inputs.config.troubles, &parts, now);
        if now {
            all.issuers.hurry();
            for source in all.sources.all() {
                if let Some(look) = sources::reload(&source).await {
                    parts.push(Part::new(source.label(), look));
                }
            }
            summary(all.file.is_some(), &parts);
        } else {
            for part in parts.iter().filter(|part| changed(part)) {
                tracing::info!(part = part.name, "reloaded");
            }
        }
        problems(&parts);
        let after = all.plane.inputs.config.now();
        if now || !Arc::ptr_eq(&before, &after) {
            restarts(&after.waiting);
        }
    }
}

/// Reads files on another thread.
async fn apart(
    all: &Arc<Reloaded>,
    read: impl FnOnce(&Reloaded) -> Vec<Part> + Send + 'static,
) -> Vec<Part> {
    let reading = all.clone();
    let mut read = tokio::task::spawn_blocking(move || read(&reading));
    let troubles = &all.plane.inputs.config.troubles;
    let ended = match timeout(LONG, &mut read).await {
        Ok(ended) => ended,
        Err(_) => {
            let problem = format!("not ended after {} s; see the disks and logs", LONG.as_secs());
            tracing::error!(problem, "a reload hangs; nothing reloads until it ends");
            troubles.note(RELOAD, Some(problem));
            read.await
        }
    };
    troubles.note(RELOAD, None);
    ended.unwrap_or_else(|error| vec![Part::new("files", Look::Bad(Unread(error.to_string())))])
}

/// Reloads everything but the sources of replicas, which have their own tasks.
fn parts(all: &Reloaded, now: bool) -> Vec<Part> {
    let mut parts = all.config(now);
    if let Some(tls) = &all.plane.inputs.config.now().client_tls {
        parts.push(Part::new("certificate for clients", tls.look(now)));
    }
    if let Some(tls) = &all.admin_tls {
        parts.push(Part::new("certificate of the admin port", tls.look(now)));
    }
    if let Some(peers) = &all.plane.peers {
        parts.push(Part::new("certificates for peers", peers.look(now)));
    }
    if let Some(look) = all.registry.as_ref().and_then(|registry| registry.look(now)) {
        parts.push(Part::new("certificates for the control plane", look));
    }
    for (name, look) in all.credentials.look(now) {
        parts.push(Part::new(format!("files of credentials `{name}`"), look));
    }
    if now && all.plane.records.has_files() {
        parts
            .push(Part::new("files of the access log and the journal", all.plane.records.reopen()));
    }
    parts
}

/// Logs the result of a requested reload.
fn summary(has_file: bool, parts: &[Part]) {
    let names = |wanted: fn(&Look) -> bool| {
        let names: Vec<&str> =
            parts.iter().filter(|part| wanted(&part.look)).map(|part| part.name.as_str()).collect();
        if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
    };
    let changed = names(|look| *look == Look::New);
    let unchanged = names(|look| *look == Look::Same);
    tracing::info!(changed, unchanged, "reloaded on SIGHUP");
    if !has_file {
        tracing::info!("the configuration came from a pipe, so a reload does not read it again");
    }
}

fn problems(parts: &[Part]) {
    for part in parts {
        if let Look::Bad(problem) = &part.look {
            tracing::error!(part = part.name, %problem, "cannot be reloaded; the current version stays in use");
        }
    }
}

/// Notes for the status page which parts failed; sources of replicas have a row of their own there.
/// A poll that sees no change tells nothing about an earlier problem; a requested reload tries every
/// part.
fn note(troubles: &Troubles, parts: &[Part], asked: bool) {
    troubles.keep(|name| parts.iter().any(|part| part.name == name));
    for part in parts {
        match &part.look {
            Look::Bad(Unread(problem)) => troubles.note(&part.name, Some(problem.clone())),
            Look::New => troubles.note(&part.name, None),
            Look::Same if asked => troubles.note(&part.name, None),
            Look::Same => {}
        }
    }
}

/// Logs keys whose changes need a restart.
fn restarts(keys: &[String]) {
    if !keys.is_empty() {
        let keys = keys.join(", ");
        tracing::warn!(keys, "these keys of the file changed; restart the gateway to apply them");
    }
}
