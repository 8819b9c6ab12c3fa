//! Hot reload: the sections `tenants`, `residency`, `admin_access` and `traces` of the gateway's
//! file, all certificates and the files of `discovery`. SIGHUP also opens the access log and the journal again.
//!
//! There are two triggers. A poll every 2 seconds compares the files and logs changes. SIGHUP reads
//! all of them at once, including those whose change the poll would wait to settle, and logs every
//! part: changed, unchanged, in need of a restart, or invalid. Invalid files leave the current
//! state in force, and no request or connection ends because of a reload. A separate thread reads
//! the files: a file system that does not answer delays only reloads.

use std::sync::Arc;

use meridian_tls::{LOOK, Look, Unread};
use tokio::sync::Notify;

use crate::access::AccessNow;
use crate::admin::tls::AdminTls;
use crate::certificates::ClientTls;
use crate::inputs::residency::Residency;
use crate::machine::driver::Driver;
use crate::peers::all::Peers;
use crate::record::Records;
use crate::registry::following::Following;
use crate::replicas::credentials::Credentials;
use crate::sources;
use crate::sources::source::Source;

/// Everything that can be reloaded.
pub(crate) struct Reloaded {
    pub(crate) access: Arc<AccessNow>,
    /// Receives new rules and labels.
    pub(crate) residency: Arc<Residency>,
    pub(crate) driver: Arc<Driver>,
    pub(crate) client_tls: Option<Arc<ClientTls>>,
    pub(crate) admin_tls: Option<Arc<AdminTls>>,
    pub(crate) peers: Option<Arc<Peers>>,
    pub(crate) registry: Option<Arc<Following>>,
    pub(crate) sources: Vec<Arc<Source>>,
    pub(crate) records: Arc<Records>,
    pub(crate) credentials: Arc<Credentials>,
}

impl Reloaded {
    /// Reloads the sections of the configuration file.
    fn access(&self, now: bool) -> Part {
        let look = self.access.look(&self.residency, &self.driver, now);
        Part::new("tenants and residency", look)
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
    if all.access.has_file() {
        problems(&apart(&all, |all| vec![all.access(true)]).await);
    }
    loop {
        let now = tokio::select! {
            () = tokio::time::sleep(LOOK) => false,
            () = asked.notified() => true,
        };
        let before = all.access.now();
        let mut parts = apart(&all, move |all| parts(all, now)).await;
        let changed = |part: &Part| part.look == Look::New;
        if now {
            for source in &all.sources {
                if let Some(look) = sources::reload(source).await {
                    parts.push(Part::new(source.label(), look));
                }
            }
            summary(all.access.has_file(), &parts);
        } else {
            for part in parts.iter().filter(|part| changed(part)) {
                tracing::info!(part = part.name, "reloaded");
            }
        }
        problems(&parts);
        let after = all.access.now();
        if now || !Arc::ptr_eq(&before, &after) {
            restarts(after.others());
        }
    }
}

/// Reads files on another thread.
async fn apart(
    all: &Arc<Reloaded>,
    read: impl FnOnce(&Reloaded) -> Vec<Part> + Send + 'static,
) -> Vec<Part> {
    let all = all.clone();
    let read = tokio::task::spawn_blocking(move || read(&all)).await;
    read.unwrap_or_else(|error| vec![Part::new("files", Look::Bad(Unread(error.to_string())))])
}

/// Reloads everything but the sources of replicas, which have their own tasks.
fn parts(all: &Reloaded, now: bool) -> Vec<Part> {
    let mut parts = Vec::new();
    if all.access.has_file() {
        parts.push(all.access(now));
    }
    if let Some(tls) = &all.client_tls {
        parts.push(Part::new("certificate for clients", tls.look(now)));
    }
    if let Some(tls) = &all.admin_tls {
        parts.push(Part::new("certificate of the admin port", tls.look(now)));
    }
    if let Some(peers) = &all.peers {
        parts.push(Part::new("certificates for peers", peers.look(now)));
    }
    if let Some(look) = all.registry.as_ref().and_then(|registry| registry.look(now)) {
        parts.push(Part::new("certificates for the control plane", look));
    }
    for (name, look) in all.credentials.look(now) {
        parts.push(Part::new(format!("files of credentials `{name}`"), look));
    }
    if now && all.records.has_files() {
        parts.push(Part::new("files of the access log and the journal", all.records.reopen()));
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

/// Logs sections whose changes need a restart.
fn restarts(sections: &[String]) {
    if !sections.is_empty() {
        let sections = sections.join(", ");
        tracing::warn!(
            sections,
            "these sections of the file changed; restart the gateway to apply them"
        );
    }
}
