//! This gateway's state with respect to the control plane: the newest view, and current problems.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use meridian_config as config;
use meridian_protocol::admin;
use meridian_protocol::registry::{Kept, Snapshot};
use meridian_tls::{FileError, Look};
use tokio::sync::watch as channel;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ask::ControlPlane;
use super::lost::Lost;
use super::ours::Ours;
use super::pauses::Pauses;
use super::planes::Planes;
use super::secured::Secured;
use super::view_file::{SavedView, ViewFile};
use crate::lock::{Mutex, MutexGuard};

/// This gateway's state with respect to the control plane.
pub(crate) struct Following {
    pub(super) control: ControlPlane,
    pub(super) region: String,
    pub(super) name: String,
    /// The file for the view, if configured.
    pub(super) file: Option<ViewFile>,
    /// The newest view; none before the first.
    pub(super) view: channel::Sender<Option<Arc<Snapshot>>>,
    state: Mutex<State>,
    /// Cancelled when this gateway deregisters and stops renewing its lease.
    pub(super) leaving: CancellationToken,
}

#[derive(Default)]
pub(super) struct State {
    /// Whether the watch is connected.
    watches: bool,
    /// Why the lease is not held, or the watch is not connected.
    trouble: BTreeMap<Task, String>,
    /// When the control plane last confirmed the view.
    confirmed: Option<Instant>,
    /// The file's contents at the start, until a view is in force.
    found: Option<Kept>,
    /// The file's view, if it is in force.
    saved: Option<SavedView>,
    /// Why the view could not be saved.
    pub(super) unkept: Option<String>,
    lost: Option<Instant>,
    losses: u64,
    /// The lease as granted.
    pub(super) lease: Option<String>,
    /// The registry's replicas that are here, by host and port.
    pub(super) ours: BTreeMap<String, Ours>,
    /// Parts of the view that can't be applied.
    pub(super) problems: BTreeSet<String>,
    /// Replicas of the view for which the gateway has no room.
    pub(super) left_out: usize,
}

impl State {
    /// The registry's replicas that have not left since the view was applied.
    pub(super) fn present(&self) -> impl Iterator<Item = &Ours> {
        self.ours.values().filter(|ours| !ours.member.gone.is_cancelled())
    }
}

/// The tasks that send requests to the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Task {
    Lease,
    Watch,
}

impl Following {
    /// None if the configuration has no control plane. `own_name` is the name in the peer
    /// certificate, if there is one.
    ///
    /// # Errors
    /// If its certificates can't be used, or the view can't be saved.
    pub(crate) fn new(
        config: &config::Gateway,
        own_name: Option<&str>,
    ) -> Result<Option<Following>, FileError> {
        let Some(control) = config.control.clone() else { return Ok(None) };
        let files = control.tls.clone().or_else(|| config.peers.as_ref()?.files());
        // The configuration was checked: it has a name or peers.
        let Some(name) = control.name.as_deref().or(own_name) else { return Ok(None) };
        let secured = |files| Secured::load(&files, &config.region, name);
        let tls = files.filter(|_| control.url.is_https()).map(secured).transpose()?;
        let file = control.view.as_deref().map(|path| ViewFile::new(path, &config.region));
        let following = Following {
            region: config.region.clone(),
            name: name.to_owned(),
            file: file.transpose()?,
            view: channel::Sender::new(None),
            state: Mutex::default(),
            leaving: CancellationToken::new(),
            control: ControlPlane {
                planes: Planes::new(control.url.clone()),
                config: control,
                tls,
            },
        };
        following.load_file();
        Ok(Some(following))
    }

    /// Polls the certificate files and reloads them if they changed; with `now`, in any case. None
    /// without certificates.
    pub(crate) fn look(&self, now: bool) -> Option<Look> {
        self.control.tls.as_ref().map(|tls| tls.look(now))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The replicas that the registry has a record of, by host and port.
    pub(crate) fn decided(&self) -> BTreeSet<String> {
        let view = self.view.borrow().clone();
        let replicas = view.iter().flat_map(|view| view.replicas.values());
        replicas
            .filter_map(|record| meridian_protocol::address::authority(&record.spec.url))
            .collect()
    }

    fn revision(&self) -> u64 {
        self.view.borrow().as_ref().map_or(0, |view| view.revision)
    }

    /// Notes that a task's request to the control plane at `at` failed: another one is used if that
    /// may help, and the control plane is lost if it does not.
    pub(super) fn failed(&self, task: Task, at: usize, why: &Lost, pauses: &mut Pauses) {
        let planes = &self.control.planes;
        let moved = planes.failed(at, why);
        let is_lost = pauses.failed(!why.is_its_own());
        let url = planes.url(at);
        if task == Task::Watch && is_lost {
            self.begin_with_kept();
        }
        let mut state = self.state();
        if task == Task::Watch {
            state.watches = false;
        }
        let several = planes.count() > 1;
        let text = if several { format!("{url}: {why}") } else { why.to_string() };
        state.trouble.insert(task, text);
        if state.lost.is_some() {
            return;
        }
        if !is_lost {
            drop(state);
            if moved {
                let to = planes.url(planes.used());
                tracing::warn!(from = url, to, error = %why, "this gateway uses another control plane");
            }
            return;
        }
        state.lost = Some(Instant::now());
        state.losses += 1;
        drop(state);
        let (url, revision) = (planes.urls(), self.revision());
        if self.view.borrow().is_some() {
            tracing::warn!(%url, revision, error = %why, "lost the control plane; this gateway keeps its last view");
        } else {
            tracing::warn!(%url, error = %why, "the control plane does not answer; this gateway uses its own file until it does");
        }
    }

    /// Notes that the watch is left because another control plane is in use.
    pub(super) fn leaves_watch(&self) {
        self.state().watches = false;
    }

    /// Notes that a task's request succeeded.
    pub(super) fn did(&self, task: Task) {
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
            let (url, revision) = (self.url(), self.revision());
            tracing::info!(url, revision, lost_s, "connected to the control plane");
        }
    }

    /// The address of the control plane in use.
    fn url(&self) -> &str {
        self.control.planes.url(self.control.planes.used())
    }

    /// The state for the status page.
    pub(crate) fn status(&self) -> admin::Control {
        let view = self.view.borrow().clone();
        let state = self.state();
        let word = match (&view, state.lost) {
            (None, _) => "unseen",
            _ if state.saved.is_some() => "kept",
            (Some(_), Some(_)) => "lost",
            (Some(_), None) => "up",
        };
        let confirmed = || state.confirmed.map(|at| at.elapsed());
        let age = state.saved.as_ref().map(SavedView::age).or_else(confirmed);
        let adopted: Vec<_> = state.present().filter_map(|o| o.adopted.clone()).collect();
        let adopted_replicas = adopted.len();
        let adopted: BTreeSet<_> = adopted.into_iter().collect();
        let trouble = state.trouble.values().chain(&state.unkept).chain(&state.problems).cloned();
        admin::Control {
            url: self.url().to_owned(),
            others: self.control.planes.others(),
            moves: self.control.planes.moves(),
            name: self.name.clone(),
            state: word.to_owned(),
            view_age_s: age.map(|age| age.as_secs_f64()),
            lost_s: state.lost.map(|since| since.elapsed().as_secs_f64()),
            losses: state.losses,
            revision: view.as_ref().map_or(0, |view| view.revision),
            leased: state.lease.is_some(),
            gateways: view.iter().flat_map(|view| view.gateways.keys().cloned()).collect(),
            adopted: adopted.into_iter().collect(),
            adopted_replicas,
            left_out: state.left_out,
            problems: trouble.collect(),
        }
    }

    /// Reads the file once, before any request to the control plane.
    fn load_file(&self) {
        let Some(file) = &self.file else { return };
        let mut state = self.state();
        match file.read() {
            Ok(found) => state.found = found,
            Err(problem) => {
                tracing::warn!(problem, "no saved view");
                state.unkept = Some(problem);
            }
        }
    }

    /// The control plane does not answer: use the file's view, if there is one and none has
    /// arrived.
    pub(super) fn begin_with_kept(&self) {
        let mut state = self.state();
        let Some(kept) = state.found.take() else { return };
        let saved = SavedView::with(kept.at);
        let (revision, replicas) = (kept.view.revision, kept.view.replicas.len());
        let view = Arc::new(kept.view);
        let begins = self.view.send_if_modified(|held| {
            let first = held.is_none();
            if first {
                *held = Some(view);
            }
            first
        });
        if begins {
            let (url, age_s) = (self.control.planes.urls(), saved.age().as_secs());
            assert!(state.saved.is_none(), "the saved view is used once");
            state.saved = Some(saved);
            tracing::warn!(%url, revision, replicas, age_s, "the control plane does not answer; this gateway starts with its saved view");
        }
    }

    /// Takes a view from the control plane; `changed` says whether anything in it changed. Returns
    /// the previous one.
    pub(super) fn hear(&self, view: &Arc<Snapshot>, changed: bool) -> Option<Arc<Snapshot>> {
        let mut state = self.state();
        state.confirmed = Some(Instant::now());
        state.found = None;
        if let Some(saved) = state.saved.take() {
            let age_s = saved.age().as_secs();
            tracing::info!(age_s, "the control plane's view replaces the saved one");
        }
        let mut before = None;
        self.view.send_if_modified(|held| {
            before = held.replace(view.clone());
            changed
        });
        before
    }

    /// The control plane's view, and when it was last confirmed.
    pub(super) fn heard(&self) -> Option<(Arc<Snapshot>, Instant)> {
        let state = self.state();
        let confirmed = state.confirmed.filter(|_| state.saved.is_none())?;
        Some((self.view.borrow().clone()?, confirmed))
    }

    /// Pauses of a task after failures; the longest is the interval between two renewals.
    pub(super) fn pauses(&self, salt: u64) -> Pauses {
        let most = self.control.config.lease.0 / 3;
        Pauses::new(&self.name, salt, self.control.planes.count(), most)
    }
}
