//! The store's name, and whether it still answers.
//!
//! Followers know a store by its name and a revision. A store that is restored from a backup has the
//! old name and continues at an older revision, so a follower that kept its revision would miss the
//! changes up to there. The control plane notices that the revision went back, and gives the store another name.
//! All control planes see that name and end their watches, and followers read the registry again.
//!
//! A control plane that has lost its store ends its watches, too: its followers can do without it only
//! if they know.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use super::{Shared, random};
use crate::Error;
use crate::registry::Refused;
use crate::store::{Entry, Revision};

/// Interval of looking.
const LOOK: Duration = Duration::from_secs(1);
/// Timeout for an answer.
const LIMIT: Duration = Duration::from_secs(2);
/// After so long without an answer the store counts as lost.
const PATIENCE: Duration = Duration::from_secs(3);
const _: () = assert!(LIMIT.as_secs() < PATIENCE.as_secs(), "one late answer is no loss");

/// What the store is known as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// Its name.
    pub(super) name: String,
    /// Whether it answers.
    pub(super) answers: bool,
}

/// A name that no other store has.
pub(super) fn fresh() -> String {
    format!("{:016x}", random())
}

/// The store's name at the start, as soon as the store answers.
pub(super) async fn first(
    registry: &crate::registry::Registry<crate::chosen::Chosen>,
) -> Result<watch::Sender<Identity>, Refused> {
    let fresh = fresh();
    loop {
        match registry.identity(&fresh).await {
            Ok(name) => return Ok(watch::Sender::new(Identity { name, answers: true })),
            Err(Refused::Store(error)) if error.may_retry() => {
                tracing::error!(%error, "the store does not answer; trying again");
                tokio::time::sleep(LOOK).await;
            }
            Err(refused) => return Err(refused),
        }
    }
}

/// Follows a store that others write to, too; never returns.
pub(super) async fn keep(shared: std::sync::Arc<Shared>) {
    let mut ticks = interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut newest, mut answered) = (Revision(0), Instant::now());
    loop {
        ticks.tick().await;
        let looked = timeout(LIMIT, look(&shared, newest)).await;
        let late = |_| Err(Error::Unavailable(format!("no answer within {LIMIT:?}")).into());
        match looked.unwrap_or_else(late) {
            Ok((revision, name)) => {
                (newest, answered) = (revision, Instant::now());
                enter(&shared, Identity { name, answers: true });
            }
            Err(refused) if answered.elapsed() >= PATIENCE => {
                let name = shared.identity.borrow().name.clone();
                if enter(&shared, Identity { name, answers: false }) {
                    tracing::error!(%refused, "the store is lost; gateways continue with what they know");
                }
            }
            Err(_) => {}
        }
    }
}

/// The newest revision and the name, which changes if the revision went back.
async fn look(shared: &Shared, newest: Revision) -> Result<(Revision, String), Refused> {
    let (revision, entry) = shared.registry.head().await?;
    let known = shared.identity.borrow().name.clone();
    let named = entry.as_ref().map(name_in);
    if revision < newest || named.is_none() {
        let name = renamed(shared, entry.as_ref(), &known).await?;
        tracing::error!(
            %revision, %newest, store = name,
            "the store went back to an earlier state; followers read the registry again"
        );
        return Ok((revision, name));
    }
    Ok((revision, named.unwrap_or(known)))
}

/// Another control plane may have been first: then the name in the store is not the known one.
async fn renamed(shared: &Shared, entry: Option<&Entry>, known: &str) -> Result<String, Refused> {
    match entry.map(name_in).filter(|name| name != known) {
        Some(name) => Ok(name),
        None => shared.registry.rename(entry, &fresh()).await,
    }
}

fn name_in(entry: &Entry) -> String {
    String::from_utf8_lossy(&entry.value).into_owned()
}

/// Returns whether something changed.
fn enter(shared: &Shared, identity: Identity) -> bool {
    shared.identity.send_if_modified(|now| {
        let before = std::mem::replace(now, identity);
        if before.answers != now.answers && now.answers {
            tracing::info!(store = now.name, "the store answers again");
        }
        before != *now
    })
}
