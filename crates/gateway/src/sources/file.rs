//! A file with a list of replicas. It is read every second, which sees a file that is renamed into
//! its place, or a link that is turned (as Kubernetes does with a ConfigMap), as well as one that is
//! written. A bad one is told once for each change of its bytes.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use meridian_wire::config::replica_list;

use super::Source;
use crate::shared::Shared;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);
/// Largest file, bytes.
const MOST: u64 = 4 << 20;

pub(super) async fn keep(shared: Arc<Shared>, source: Arc<Source>, path: PathBuf) {
    let limit = usize::from(shared.config.limits.replicas);
    let mut last = None;
    loop {
        let path = path.clone();
        let read = tokio::task::spawn_blocking(move || read(&path)).await;
        let read = read.unwrap_or_else(|error| Err(error.to_string()));
        let list = read
            .clone()
            .and_then(|text| replica_list(&text, limit).map_err(|error| error.to_string()));
        match list {
            // Also where nothing has changed: others may have taken replicas out.
            Ok(replicas) => source.found(&shared, replicas),
            Err(why) if last.as_ref() != Some(&read) => source.failed(why),
            Err(_) => {}
        }
        last = Some(read);
        source.rest(&shared, PAUSE).await;
    }
}

fn read(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let unread = |error: std::io::Error| format!("{shown} cannot be read: {error}");
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(unread)?;
    file.take(MOST + 1).read_to_string(&mut text).map_err(unread)?;
    if text.len() as u64 > MOST {
        return Err(format!("{shown} is larger than {MOST} bytes; list fewer replicas"));
    }
    Ok(text)
}
