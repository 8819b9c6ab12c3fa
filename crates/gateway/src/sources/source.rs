//! One source: the replicas that it added, and the result of its newest poll.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use meridian_wire::admin::{self, AddReplica};
use meridian_wire::config;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::lock::{Mutex, MutexGuard};
use crate::registry::following::Following;
use crate::replicas::fleet::Member;
use crate::replicas::membership::Replicas;

/// The contents of a file, or why it can't be read.
pub(super) type Read = Result<String, String>;

/// Polling interval for replicas that should leave.
const LOOK: Duration = Duration::from_millis(250);

/// One source.
pub(crate) struct Source {
    pub(super) config: config::Source,
    label: String,
    replicas: Arc<Replicas>,
    /// Decides about replicas of which it has a record.
    registry: Option<Arc<Following>>,
    state: Mutex<State>,
    /// Ends the pause before the next lookup of a name.
    again: Notify,
}

#[derive(Default)]
struct State {
    /// The replicas that it added, by host and port.
    ours: BTreeMap<String, Ours>,
    /// Why the newest poll failed.
    trouble: Option<String>,
    failures: u64,
    /// Time of the last successful poll.
    good: Option<Instant>,
    /// The file's contents at the newest poll.
    read: Option<Read>,
    /// Parts of the result that can't be applied.
    problems: BTreeSet<String>,
}

struct Ours {
    member: Arc<Member>,
    leaves: bool,
}

impl Source {
    pub(crate) fn new(
        config: &config::Source,
        replicas: Arc<Replicas>,
        registry: Option<Arc<Following>>,
    ) -> Source {
        Source {
            replicas,
            registry,
            label: config.label(),
            config: config.clone(),
            state: Mutex::default(),
            again: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(crate) fn status(&self) -> admin::Source {
        let state = self.state();
        admin::Source {
            name: self.label.clone(),
            replicas: state.ours.values().filter(|ours| !ours.leaves).count(),
            failures: state.failures,
            good_s: state.good.map(|at| at.elapsed().as_secs_f64()),
            trouble: state.trouble.clone(),
            problems: state.problems.iter().cloned().collect(),
        }
    }

    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// Ends the pause before the next lookup of a name.
    pub(super) fn again(&self) {
        self.again.notify_one();
        tracing::info!(source = self.label, "the name is resolved again");
    }

    /// Notes the file's contents; returns whether they are new.
    pub(super) fn was_read(&self, text: &Read) -> bool {
        self.state().read.replace(text.clone()).as_ref() != Some(text)
    }

    /// Why the newest poll failed.
    pub(super) fn trouble(&self) -> Option<String> {
        self.state().trouble.clone()
    }

    /// A poll failed: the replicas found before stay. Returns whether the reason is new.
    pub(super) fn failed(&self, why: &str) -> bool {
        let mut state = self.state();
        state.failures += 1;
        state.trouble.replace(why.to_owned()).as_deref() != Some(why)
    }

    pub(super) fn log_trouble(&self, why: &str) {
        let replicas = self.state().ours.len();
        tracing::error!(
            source = self.label,
            replicas,
            error = why,
            "no replicas can be read; those found last stay"
        );
    }

    /// A poll succeeded.
    pub(super) fn found(&self, replicas: Vec<AddReplica>) {
        let mut state = self.state();
        state.good = Some(Instant::now());
        if state.trouble.take().is_some() {
            tracing::info!(source = self.label, "replicas can be read again");
        }
        self.apply(replicas, &mut state);
    }

    /// Applies the replicas that were found.
    fn apply(&self, replicas: Vec<AddReplica>, state: &mut State) {
        // A replica that was removed or replaced by other means no longer belongs to this source.
        state.ours.retain(|_, ours| !ours.member.gone.is_cancelled());
        let decided = self.registry.as_ref().map(|r| r.decided()).unwrap_or_default();
        let (mut found, mut problems) = (BTreeSet::new(), BTreeSet::new());
        for spec in replicas {
            let Some(address) = config::authority(&spec.url) else { continue };
            if decided.contains(&address) {
                state.ours.remove(&address);
            } else if let Err(problem) = self.take(&address, spec, state) {
                problems.insert(problem);
            }
            found.insert(address);
        }
        for (address, ours) in &mut state.ours {
            if !found.contains(address) && !std::mem::replace(&mut ours.leaves, true) {
                self.replicas.drain(&ours.member);
                tracing::info!(source = self.label, replica = %ours.member.id, url = address, "replica drains: it is listed no more");
            }
        }
        for problem in problems.difference(&state.problems) {
            tracing::warn!(source = self.label, problem, "a replica is left out");
        }
        state.problems = problems;
    }

    /// Adds a replica, or leaves it as it is.
    fn take(&self, address: &str, spec: AddReplica, state: &mut State) -> Result<(), String> {
        if let Some(ours) = state.ours.get_mut(address) {
            if ours.member.spec == spec {
                if std::mem::take(&mut ours.leaves) {
                    self.replicas.resume(&ours.member);
                    tracing::info!(source = self.label, replica = %ours.member.id, url = address, "replica is listed again");
                }
                return Ok(());
            }
            // A replica with a changed description leaves and joins again.
            self.replicas.leave(&ours.member);
            state.ours.remove(address);
        }
        if self.replicas.all().iter().any(|member| member.authority.as_str() == address) {
            return Ok(());
        }
        let member = self.replicas.join(spec).map_err(|error| error.to_string())?;
        tracing::info!(source = self.label, replica = %member.name, url = address, "replica found");
        state.ours.insert(address.to_owned(), Ours { member, leaves: false });
        Ok(())
    }

    /// Removes leaving replicas whose requests have ended; returns whether some are left.
    fn let_go(&self) -> bool {
        let mut state = self.state();
        state.ours.retain(|address, ours| {
            if ours.member.gone.is_cancelled() {
                return false;
            }
            if !ours.leaves || self.replicas.is_busy(&ours.member) {
                return true;
            }
            self.replicas.leave(&ours.member);
            tracing::info!(source = self.label, replica = %ours.member.id, url = address, "replica drained and removed");
            false
        });
        state.ours.values().any(|ours| ours.leaves)
    }

    /// Waits, removing replicas that should leave.
    pub(super) async fn rest(&self, pause: Duration) {
        let until = Instant::now() + pause;
        while self.let_go() && Instant::now() + LOOK < until {
            sleep(LOOK).await;
        }
        tokio::select! {
            () = tokio::time::sleep_until(until) => {}
            () = self.again.notified() => {}
        }
    }
}
