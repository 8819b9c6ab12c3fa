//! A file with a list of replicas. It is read every second, which detects a file renamed into place
//! and a changed symbolic link (as Kubernetes does with a ConfigMap) as well as a write. An invalid
//! file is reported once per change of its bytes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use meridian_config::replica_list;
use meridian_files::NotRead;
use meridian_protocol::admin::AddReplica;
use meridian_tls::{Look, Unread};

use super::source::{Read, Source};

/// Polling interval.
const PAUSE: Duration = Duration::from_secs(1);
/// Largest file, bytes.
const MOST: u64 = 4 << 20;

pub(super) async fn keep(source: Arc<Source>, path: PathBuf) {
    loop {
        let reported = source.trouble();
        if let Look::Bad(Unread(why)) = look(&source, &path).await
            && reported.as_ref() != Some(&why)
        {
            source.log_trouble(&why);
        }
        source.rest(PAUSE).await;
    }
}

/// Reads the file and applies its replicas.
pub(super) async fn look(source: &Source, path: &Path) -> Look {
    let from = path.to_owned();
    let text = tokio::task::spawn_blocking(move || read(&from)).await;
    let text: Read = text.unwrap_or_else(|error| Err(error.to_string()));
    let is_new = source.was_read(&text);
    match list(text) {
        Ok(replicas) => {
            // Even if nothing changed: replicas may have been removed by other means.
            source.found(replicas);
            if is_new { Look::New } else { Look::Same }
        }
        Err(why) => {
            if is_new {
                source.failed(&why);
            }
            Look::Bad(Unread(why))
        }
    }
}

/// The replicas listed in a file's text.
pub(super) fn list(text: Read) -> Result<Vec<AddReplica>, String> {
    text.and_then(|text| replica_list(&text).map_err(|error| error.to_string()))
}

pub(super) fn read(path: &Path) -> Result<String, String> {
    let shown = path.display();
    meridian_files::read_text(path, MOST).map_err(|error| match error {
        NotRead::Io(error) => format!("{shown} cannot be read: {error}"),
        NotRead::TooLarge(most) => {
            format!("{shown} is larger than {most} bytes; list fewer replicas")
        }
        error => format!("{shown} {error}"),
    })
}
