//! Following the control plane: this gateway says that it lives, and has the replicas that follow
//! from who else does.
//!
//! Four tasks: one keeps the lease (`lease.rs`), one keeps the view of the registry up to date
//! (`watch.rs`), one makes the replicas here those that the view assigns to this gateway
//! (`apply.rs`, by the pure `wanted.rs`), one keeps the view in a file (`kept.rs`). Nothing waits for
//! any of them. A gateway starts with its own file, and without the control plane with the view that
//! it kept; one that has lost the control plane goes on with its last view and says so, once in
//! the log and all the time in its status and metrics.
//!
//! Deliberately not here: noticing by itself that another gateway is gone. Leases do that, so that
//! all sides agree on it.

mod apply;
mod ask;
mod kept;
mod lease;
mod secured;
mod wanted;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use meridian_base::{Rng, keyed};
use meridian_tls::{FileError, Look};
use meridian_wire::registry::{Kept, Snapshot};
use meridian_wire::{admin, config};
use tokio::sync::watch as channel;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::apply::Ours;
use self::ask::Lost;
use self::kept::{Begun, ViewFile};
use self::secured::Secured;
pub(crate) use self::secured::files;
use crate::lock::{Mutex, MutexGuard};
use crate::peers::Peers;
use crate::replicas::fleet::Member;
use crate::replicas::name::ReplicaName;
use crate::serve::Ready;
use crate::shared::Shared;

/// The first pause after a failure; the longest is the time between two renewals.
const PAUSE: Duration = Duration::from_millis(100);
/// For the control plane to hear that this gateway goes.
const GOODBYE: Duration = Duration::from_secs(1);

/// The control plane as this gateway follows it.
pub(crate) struct Following {
    config: config::Registry,
    region: String,
    name: String,
    /// Over https.
    tls: Option<Secured>,
    /// Where the view is kept, if it is.
    file: Option<ViewFile>,
    /// The newest view; none before the first.
    view: channel::Sender<Option<Arc<Snapshot>>>,
    state: Mutex<State>,
    /// This gateway says goodbye and renews no more.
    leaving: CancellationToken,
}

#[derive(Default)]
struct State {
    /// The watch is up.
    watches: bool,
    /// What keeps the lease from being held, or the watch from being up.
    trouble: BTreeMap<Task, String>,
    /// When the control plane last said that the view holds.
    told: Option<Instant>,
    /// What the file held at the start, until a view is in force.
    found: Option<Kept>,
    /// That one is in force.
    begun: Option<Begun>,
    /// Why the view is not in the file.
    unkept: Option<String>,
    lost: Option<Instant>,
    losses: u64,
    /// As it was granted.
    lease: Option<String>,
    /// The registry's replicas that are here, by host and port.
    ours: BTreeMap<String, Ours>,
    /// Replicas that drain with the region though the registry has no record of them.
    drained: BTreeMap<ReplicaName, Arc<Member>>,
    /// The policy in force, where it is not the one that the gateway's file says.
    policy: Option<config::Policy>,
    /// What of the view can't be done.
    problems: BTreeSet<String>,
}

/// Whoever asks the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    Lease,
    Watch,
}

impl Following {
    /// None where the configuration names no control plane.
    ///
    /// # Errors
    /// When its certificates can't be used, or its view can't be kept.
    pub(crate) fn new(
        config: &config::Gateway,
        peers: Option<&Peers>,
    ) -> Result<Option<Following>, FileError> {
        let Some(control) = config.control.clone() else { return Ok(None) };
        let files = control.tls.clone().or_else(|| Some(config.peers.as_ref()?.files()));
        let tls = files.filter(|_| control.is_https()).map(|files| Secured::load(&files));
        let tls = tls.transpose()?;
        let certified = || peers.map(|peers| peers.own_name().to_owned());
        // The configuration was checked: it has a name or peers.
        let Some(name) = control.name.clone().or_else(certified) else { return Ok(None) };
        let file = control.view.as_deref().map(|path| ViewFile::new(path, &config.region));
        let following = Following {
            region: config.region.clone(),
            name,
            file: file.transpose()?,
            view: channel::Sender::new(None),
            state: Mutex::default(),
            leaving: CancellationToken::new(),
            config: control,
            tls,
        };
        following.recall();
        Ok(Some(following))
    }

    /// Reads the certificates' files again where they changed, or `now` in any case; none without
    /// certificates.
    pub(crate) fn look(&self, now: bool) -> Option<Look> {
        self.tls.as_ref().map(|tls| tls.look(now))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The replicas that the registry has a record of, by host and port.
    pub(crate) fn decided(&self) -> BTreeSet<String> {
        let view = self.view.borrow().clone();
        let replicas = view.iter().flat_map(|view| view.replicas.values());
        replicas.filter_map(|record| config::authority(&record.spec.url)).collect()
    }

    fn revision(&self) -> u64 {
        self.view.borrow().as_ref().map_or(0, |view| view.revision)
    }

    /// The control plane did not do what a task asked of it.
    fn failed(&self, task: Task, why: &Lost) {
        let why = why.to_string();
        if task == Task::Watch {
            self.begin_with_kept();
        }
        let mut state = self.state();
        if task == Task::Watch {
            state.watches = false;
        }
        state.trouble.insert(task, why.clone());
        if state.lost.is_some() {
            return;
        }
        state.lost = Some(Instant::now());
        state.losses += 1;
        drop(state);
        let (url, revision) = (&self.config.url, self.revision());
        if self.view.borrow().is_some() {
            tracing::warn!(%url, revision, error = why, "the control plane is lost; this gateway goes on with its last view");
        } else {
            tracing::warn!(%url, error = why, "the control plane does not answer; this gateway goes by its own file until it does");
        }
    }

    /// It did.
    fn did(&self, task: Task) {
        let mut state = self.state();
        if task == Task::Watch {
            state.watches = true;
        }
        state.trouble.remove(&task);
        if !state.trouble.is_empty() || !state.watches {
            return;
        }
        if let Some(since) = state.lost.take() {
            drop(state);
            let lost_s = since.elapsed().as_secs_f64();
            let (url, revision) = (&self.config.url, self.revision());
            tracing::info!(%url, revision, lost_s, "the control plane is there");
        }
    }

    /// The policy in force, where the registry asked for another one than the gateway's file.
    pub(crate) fn policy(&self) -> Option<config::Policy> {
        self.state().policy.clone()
    }

    /// How it stands, for the status page.
    pub(crate) fn status(&self) -> admin::Control {
        let view = self.view.borrow().clone();
        let state = self.state();
        let word = match (&view, state.lost) {
            (None, _) => "unseen",
            _ if state.begun.is_some() => "kept",
            (Some(_), Some(_)) => "lost",
            (Some(_), None) => "up",
        };
        let told = || state.told.map(|at| at.elapsed());
        let age = state.begun.as_ref().map(Begun::age).or_else(told);
        let adopted: BTreeSet<_> = state.ours.values().filter_map(|o| o.adopted.clone()).collect();
        let trouble = state.trouble.values().chain(&state.unkept).chain(&state.problems).cloned();
        admin::Control {
            url: self.config.url.clone(),
            name: self.name.clone(),
            state: word.to_owned(),
            view_age_s: age.map(|age| age.as_secs_f64()),
            lost_s: state.lost.map(|since| since.elapsed().as_secs_f64()),
            losses: state.losses,
            revision: view.as_ref().map_or(0, |view| view.revision),
            leased: state.lease.is_some(),
            gateways: view.iter().flat_map(|view| view.gateways.keys().cloned()).collect(),
            adopted: adopted.into_iter().collect(),
            adopted_replicas: state.ours.values().filter(|o| o.adopted.is_some()).count(),
            problems: trouble.collect(),
        }
    }

    /// Pauses after failures: longer each time, and not the same for all gateways.
    fn pauses(&self, salt: u64) -> Pauses {
        let rng = Rng::new(keyed(salt, self.name.as_bytes()));
        Pauses { rng, next: PAUSE, most: self.config.lease.0 / 3 }
    }
}

struct Pauses {
    rng: Rng,
    next: Duration,
    most: Duration,
}

impl Pauses {
    fn begin_anew(&mut self) {
        self.next = PAUSE;
    }

    async fn pause(&mut self) {
        let pause = self.next.min(self.most);
        self.next = (self.next * 2).min(self.most);
        tokio::time::sleep(pause.mul_f64(0.5 + self.rng.unit())).await;
    }
}

/// Everything that goes on with the control plane, until the gateway is over.
pub(crate) fn start(shared: &Arc<Shared>, ready: Ready, tasks: &mut JoinSet<()>) {
    let Some(following) = &shared.registry else { return };
    tasks.spawn(lease::keep(shared.clone(), following.clone(), ready));
    tasks.spawn(watch::keep(following.clone()));
    tasks.spawn(apply::keep(shared.clone(), following.clone()));
    tasks.spawn(kept::keep(following.clone()));
}

/// Says that this gateway goes, so that its replicas are adopted while it drains, not a lease later.
pub(crate) async fn leave(shared: &Shared) {
    let Some(following) = &shared.registry else { return };
    following.leaving.cancel();
    let Some(lease) = following.state().lease.take() else { return };
    // Where it is not heard, the lease runs out.
    let _ = tokio::time::timeout(GOODBYE, lease::give_back(following, &lease)).await;
}
