//! Keeps the newest view of the registry in a file, and begins with that file while the control plane
//! does not answer.
//!
//! The view that was found there counts only where the control plane can't be reached, or says
//! nothing for a while, and until it answers: then everything is read from it anew. A file that is
//! nothing to go by is told and left aside; the next view replaces it. It is written by a task of its
//! own, a second after a change at the soonest, so that a burst of changes becomes one file; where
//! nothing changes it is written now and then, since it says when its view held.

use std::sync::Arc;
use std::time::Duration;

use meridian_wire::registry::{Kept, Snapshot};
use tokio::time::{Instant, sleep, timeout};

use super::following::Following;
use super::view_file::{ViewFile, unix_seconds};

/// For the control plane's first answer; the doors stay closed for longer (`opening.rs`).
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two writes at least.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two writes while nothing changes, and before one that failed is tried again.
const REFRESH: Duration = Duration::from_secs(30);

/// Begins with the file where the control plane is silent, and keeps the file up to date, for ever.
pub(super) async fn keep(following: Arc<Following>) {
    let Some(file) = &following.file else { return };
    let mut view = following.view.subscribe();
    if timeout(PATIENCE, view.wait_for(Option::is_some)).await.is_err() {
        following.begin_with_kept();
    }
    let mut last = None;
    loop {
        if let Some((view, told)) = following.heard()
            && last != Some(told)
            && put(&following, file, view, told).await
        {
            last = Some(told);
        }
        sleep(PAUSE).await;
        let _ = timeout(REFRESH, view.changed()).await;
    }
}

/// Writes the file where nobody waits for it; whether that went well.
async fn put(
    following: &Arc<Following>,
    file: &ViewFile,
    view: Arc<Snapshot>,
    told: Instant,
) -> bool {
    let at = unix_seconds().saturating_sub(told.elapsed().as_secs());
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
    let problem = format!("control.view: {path}: cannot be written: {error}; the one before stays");
    let mut state = following.state();
    if state.unkept.as_ref() != Some(&problem) {
        tracing::error!(problem, "the view is not kept");
    }
    state.unkept = Some(problem);
    false
}
