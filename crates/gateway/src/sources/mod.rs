//! Replicas that are found beside those that the configuration names: in a file that may change
//! (`file.rs`), and by names in the DNS (`names.rs`).
//!
//! Each source has a task that looks again and again. What it finds joins; what it does not find any
//! more drains, and leaves when its requests have ended. A look that fails changes nothing: the last
//! good one counts on, and the log, the status and the metrics say so. An answer without a single
//! address counts as a failure too, so that a name server that lost its records empties no fleet.
//!
//! A replica belongs to whoever brought it here first: the file, a source or the admin port. Where
//! the registry has a record of it, the registry decides.

mod file;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use meridian_routing::Input;
use meridian_tls::Look;
use meridian_wire::admin::{self, AddReplica};
use meridian_wire::config;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::lock::{Mutex, MutexGuard};
use crate::replicas::discovery;
use crate::replicas::fleet::Member;
use crate::shared::Shared;

/// Between two looks at replicas that are to leave.
const LOOK: Duration = Duration::from_millis(250);

/// One source.
pub(crate) struct Source {
    config: config::Source,
    label: String,
    state: Mutex<State>,
    /// Ends the pause before a name is resolved again.
    again: Notify,
}

#[derive(Default)]
struct State {
    /// Its replicas that are here, by host and port.
    ours: BTreeMap<String, Ours>,
    /// Why the newest look failed.
    trouble: Option<String>,
    failures: u64,
    /// When one last went well.
    good: Option<Instant>,
    /// What the file held at the newest look.
    read: Option<file::Read>,
    /// What of it can't be done.
    problems: BTreeSet<String>,
}

struct Ours {
    member: Arc<Member>,
    leaves: bool,
}

/// What a look brought.
struct Found {
    replicas: Vec<AddReplica>,
    /// For so long it holds.
    holds: Duration,
}

impl Source {
    pub(crate) fn new(config: &config::Source) -> Source {
        Source {
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

    /// Reads the file at once and says what came of it. A name is only asked for again: the answer
    /// comes later, and none is reported here.
    pub(crate) async fn reload(&self, shared: &Arc<Shared>) -> Option<Look> {
        match &self.config.file {
            Some(path) => Some(file::look(shared, self, path).await),
            None => {
                self.again.notify_one();
                tracing::info!(source = self.label, "the name is resolved again");
                None
            }
        }
    }

    /// A look failed: the replicas that were found before stay in use. Whether the reason is new.
    fn failed(&self, why: &str) -> bool {
        let mut state = self.state();
        state.failures += 1;
        state.trouble.replace(why.to_owned()).as_deref() != Some(why)
    }

    fn log_trouble(&self, why: &str) {
        let replicas = self.state().ours.len();
        tracing::error!(
            source = self.label,
            replicas,
            error = why,
            "no replicas can be read; those found last stay"
        );
    }

    /// A look went well.
    fn found(&self, shared: &Arc<Shared>, replicas: Vec<AddReplica>) {
        let mut state = self.state();
        state.good = Some(Instant::now());
        if state.trouble.take().is_some() {
            tracing::info!(source = self.label, "replicas can be read again");
        }
        self.apply(shared, replicas, &mut state);
    }

    /// Makes the replicas here those that were found.
    fn apply(&self, shared: &Arc<Shared>, replicas: Vec<AddReplica>, state: &mut State) {
        // One that somebody else took out or replaced is not this source's any more.
        state.ours.retain(|_, ours| !ours.member.gone.is_cancelled());
        let decided = shared.registry.as_ref().map(|r| r.decided()).unwrap_or_default();
        let (mut found, mut problems) = (BTreeSet::new(), BTreeSet::new());
        for spec in replicas {
            let Some(address) = config::authority(&spec.url) else { continue };
            if decided.contains(&address) {
                state.ours.remove(&address);
            } else if let Err(problem) = self.take(shared, &address, spec, state) {
                problems.insert(problem);
            }
            found.insert(address);
        }
        for (address, ours) in &mut state.ours {
            if !found.contains(address) && !std::mem::replace(&mut ours.leaves, true) {
                shared.driver.tell(Input::Draining(ours.member.id));
                tracing::info!(source = self.label, replica = %ours.member.id, url = address, "replica drains: it is listed no more");
            }
        }
        for problem in problems.difference(&state.problems) {
            tracing::warn!(source = self.label, problem, "a replica is left out");
        }
        state.problems = problems;
    }

    /// Takes one in, or leaves it as it is.
    fn take(
        &self,
        shared: &Arc<Shared>,
        address: &str,
        spec: AddReplica,
        state: &mut State,
    ) -> Result<(), String> {
        if let Some(ours) = state.ours.get_mut(address) {
            if ours.member.spec == spec {
                if std::mem::take(&mut ours.leaves) {
                    shared.driver.tell(Input::Resumed(ours.member.id));
                    tracing::info!(source = self.label, replica = %ours.member.id, url = address, "replica is listed again");
                }
                return Ok(());
            }
            // One that is described otherwise joins anew.
            discovery::leave(shared, &ours.member);
            state.ours.remove(address);
        }
        if shared.fleet.all().iter().any(|member| member.authority.as_str() == address) {
            return Ok(());
        }
        let member = discovery::join(shared, spec).map_err(|error| error.to_string())?;
        tracing::info!(source = self.label, replica = %member.name, url = address, "replica found");
        state.ours.insert(address.to_owned(), Ours { member, leaves: false });
        Ok(())
    }

    /// Lets those go that are to leave and whose requests have ended; whether some are left.
    fn let_go(&self, shared: &Shared) -> bool {
        let mut state = self.state();
        state.ours.retain(|address, ours| {
            if ours.member.gone.is_cancelled() {
                return false;
            }
            if !ours.leaves || discovery::is_busy(shared, &ours.member) {
                return true;
            }
            discovery::leave(shared, &ours.member);
            tracing::info!(source = self.label, replica = %ours.member.id, url = address, "replica drained and removed");
            false
        });
        state.ours.values().any(|ours| ours.leaves)
    }

    /// Waits, letting go who is to leave.
    async fn rest(&self, shared: &Shared, pause: Duration) {
        let until = Instant::now() + pause;
        while self.let_go(shared) && Instant::now() + LOOK < until {
            sleep(LOOK).await;
        }
        tokio::select! {
            () = tokio::time::sleep_until(until) => {}
            () = self.again.notified() => {}
        }
    }
}

/// Files of `discovery` that are no lists of replicas now. A start goes on without them.
pub(crate) fn problems(config: &config::Gateway) -> Vec<String> {
    let limit = usize::from(config.limits.replicas);
    let sources = config.discovery.iter().enumerate();
    let of = |(at, source): (usize, &config::Source)| {
        let problem = file::list(file::read(source.file.as_ref()?), limit).err()?;
        Some(format!("discovery[{at}].file: {problem}; write the list of replicas there"))
    };
    sources.filter_map(of).collect()
}

/// Looks at every source, for ever.
pub(crate) fn start(shared: &Arc<Shared>, background: &mut JoinSet<()>) {
    for source in &shared.sources {
        let (shared, source) = (shared.clone(), source.clone());
        match source.config.file.clone() {
            Some(path) => background.spawn(file::keep(shared, source, path)),
            None => background.spawn(names::keep(shared, source)),
        };
    }
}
