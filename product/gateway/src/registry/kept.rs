//! Saves the newest view of the registry in a file, and starts from that file while the control
//! plane does not answer.
//!
//! The saved view is used only if the control plane can't be reached or stays silent for a while,
//! and only until it answers: then the whole registry is read again. An unusable file is reported
//! and ignored; the next view replaces it. A separate task writes the file, at the earliest a
//! second after a change, so a burst of changes is one write. Without changes the file is still
//! rewritten from time to time, since it contains the time at which its view was current.

use std::sync::Arc;
use std::time::Duration;

use meridian_protocol::registry::{Kept, Snapshot};
use tokio::time::{Instant, sleep, timeout};

use super::following::Following;
use super::view_file::{ViewFile, unix_seconds};

/// Wait for the control plane's first answer; clients are held back for longer (`opening.rs`).
const PATIENCE: Duration = Duration::from_secs(2);
/// Shortest interval between two writes.
const PAUSE: Duration = Duration::from_secs(1);
/// Interval between two writes without changes, and before a failed one is retried.
const REFRESH: Duration = Duration::from_secs(30);

/// Loads the file if the control plane is silent, and keeps the file up to date; never returns.
pub(super) async fn keep(following: Arc<Following>) {
    let Some(file) = &following.file else { return };
    let mut view = following.view.subscribe();
    if timeout(PATIENCE, view.wait_for(Option::is_some)).await.is_err() {
        following.begin_with_kept();
    }
    let mut last = None;
    loop {
        if let Some((view, confirmed)) = following.heard()
            && last != Some(confirmed)
            && put(&following, file, view, confirmed).await
        {
            last = Some(confirmed);
        }
        sleep(PAUSE).await;
        let _ = timeout(REFRESH, view.changed()).await;
    }
}

/// Writes the file on a thread that blocks no request; returns whether it succeeded.
async fn put(
    following: &Arc<Following>,
    file: &ViewFile,
    view: Arc<Snapshot>,
    confirmed: Instant,
) -> bool {
    let at = unix_seconds().saturating_sub(confirmed.elapsed().as_secs());
    let following_too = following.clone();
    let written = tokio::task::spawn_blocking(move || {
        let file = following_too.file.as_ref()?;
        let view = Snapshot::clone(&view);
        Some(file.write(&Kept { region: file.region.clone(), at, view }))
    });
    let error = match written.await {
        Ok(Some(Err(error))) => error.to_string(),
        Ok(_) => {
            following.state().unkept = None;
            return true;
        }
        Err(error) => error.to_string(),
    };
    let path = file.path.display();
    let problem = format!(
        "control.view: {path}: cannot be written: {error}; the previous view stays in the file"
    );
    let mut state = following.state();
    if state.unkept.as_ref() != Some(&problem) {
        tracing::error!(problem, "the view is not saved");
    }
    state.unkept = Some(problem);
    false
}
