//! One source: the replicas that it added, and the result of its newest poll.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use meridian_config as config;
use meridian_protocol::admin::{self, AddReplica, EndpointCounts};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::lock::{Mutex, MutexGuard};
use crate::registry::following::Following;
use crate::replicas::drains::DrainReason::{NotReady, Unlisted};
use crate::replicas::fleet::JoinError;
use crate::replicas::member::Member;
use crate::replicas::membership::Replicas;

/// Replicas that a source added, by host and port.
pub(super) type Owned = BTreeMap<String, Arc<Member>>;

/// The contents of a file, or why it can't be read.
pub(super) type Read = Result<String, String>;

/// A replica that a source found.
#[derive(Clone)]
pub(super) struct Listed {
    pub(super) replica: AddReplica,
    /// Whether it may get new requests. If not, it joins only once it may, and stays if it is here.
    pub(super) serves: bool,
}

/// One source.
pub(crate) struct Source {
    pub(super) config: config::Source,
    label: String,
    replicas: Arc<Replicas>,
    /// Decides about replicas of which it has a record.
    registry: Option<Arc<Following>>,
    state: Mutex<SourceState>,
    /// Ends the pause before the next lookup of a name.
    again: Notify,
    /// Cancelled when the configuration no longer has it.
    pub(super) over: CancellationToken,
}

#[derive(Default)]
struct SourceState {
    /// The replicas that it added.
    ours: Owned,
    /// Why the newest poll failed.
    trouble: Option<String>,
    failures: u64,
    /// Time of the last successful poll.
    good: Option<Instant>,
    /// The file's contents at the newest poll.
    read: Option<Read>,
    /// Parts of the result that can't be applied.
    problems: BTreeSet<String>,
    /// Replicas of the result for which the gateway has no room.
    left_out: usize,
    /// The newest result of a Kubernetes cluster: in numbers, and the replicas with the problems.
    endpoints: Option<EndpointCounts>,
    listed: Option<(Vec<Listed>, BTreeSet<String>)>,
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
            over: CancellationToken::new(),
        }
    }

    /// The replicas that the gateway's own file lists. Nothing polls it: a reload brings its list.
    pub(super) fn of_file(replicas: Arc<Replicas>, registry: Option<Arc<Following>>) -> Source {
        let source = Source::new(&config::Source::default(), replicas, registry);
        Source { label: "replicas".to_owned(), ..source }
    }

    /// The configuration no longer has it: nothing is found any more. Returns its replicas.
    pub(super) fn ends(&self) -> Owned {
        let mut state = self.state();
        self.over.cancel();
        std::mem::take(&mut state.ours)
    }

    /// Takes over replicas of a source that ended. Those that it does not find drain.
    pub(super) fn inherits(&self, replicas: Owned) {
        assert!(!self.over.is_cancelled(), "a source that has ended would keep its replicas");
        self.state().ours.extend(replicas);
    }

    fn state(&self) -> MutexGuard<'_, SourceState> {
        self.state.lock()
    }

    pub(super) fn status(&self) -> admin::Source {
        let state = self.state();
        admin::Source {
            name: self.label.clone(),
            replicas: state.ours.values().filter(|member| !member.drains.has(Unlisted)).count(),
            failures: state.failures,
            good_s: state.good.map(|at| at.elapsed().as_secs_f64()),
            trouble: state.trouble.clone(),
            problems: state.problems.iter().cloned().collect(),
            left_out: state.left_out,
            endpoints: state.endpoints,
        }
    }

    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// Ends the pause before the next poll, or a watch.
    pub(super) fn again(&self) {
        self.again.notify_one();
        tracing::info!(source = self.label, "replicas are listed again");
    }

    /// Completes when the source is to be polled at once.
    #[cfg(feature = "kubernetes")]
    pub(super) async fn asked(&self) {
        self.again.notified().await;
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
            "cannot read replicas; the known ones stay"
        );
    }

    /// A poll succeeded.
    pub(super) fn found(&self, replicas: Vec<AddReplica>) {
        let all = replicas.into_iter().map(|replica| Listed { replica, serves: true }).collect();
        if let Some(mut state) = self.succeeded() {
            self.apply(all, BTreeSet::new(), &mut state);
        }
    }

    /// The same, of a Kubernetes cluster: with the numbers of endpoints by their readiness, and parts
    /// that can't be used. The list counts even if a part of it fails to be read.
    #[cfg(feature = "kubernetes")]
    pub(super) fn found_endpoints(
        &self,
        replicas: Vec<Listed>,
        endpoints: EndpointCounts,
        problems: BTreeSet<String>,
        is_whole: bool,
    ) {
        let state = if is_whole { self.succeeded() } else { Some(self.state()) };
        let Some(mut state) = state.filter(|_| !self.over.is_cancelled()) else { return };
        state.endpoints = Some(endpoints);
        state.listed = Some((replicas.clone(), problems.clone()));
        self.apply(replicas, problems, &mut state);
    }

    /// Applies the newest list of a cluster again: room may have become free, or another part of the
    /// gateway may have removed a replica. A cluster reports its own changes only.
    #[cfg(feature = "kubernetes")]
    pub(super) fn apply_again(&self) {
        let mut state = self.state();
        let Some((replicas, problems)) = state.listed.clone() else { return };
        if !self.over.is_cancelled() {
            self.apply(replicas, problems, &mut state);
        }
    }

    /// Notes a success; `None` if the source has ended.
    fn succeeded(&self) -> Option<MutexGuard<'_, SourceState>> {
        let mut state = self.state();
        if self.over.is_cancelled() {
            return None;
        }
        state.good = Some(Instant::now());
        if state.trouble.take().is_some() {
            tracing::info!(source = self.label, "reading replicas works again");
        }
        Some(state)
    }

    /// Applies the replicas that were found. Those that are here stay; beyond `limits.replicas`,
    /// the rest of the list is left out until a replica leaves.
    fn apply(
        &self,
        replicas: Vec<Listed>,
        mut problems: BTreeSet<String>,
        state: &mut SourceState,
    ) {
        let decided = self.registry.as_ref().map(|r| r.decided()).unwrap_or_default();
        // A replica that was removed or replaced by other means no longer belongs to this source,
        // and neither does one of which the registry has a record.
        state
            .ours
            .retain(|address, member| !member.gone.is_cancelled() && !decided.contains(address));
        let (mut found, mut left_out) = (BTreeSet::new(), 0);
        for Listed { replica, serves } in replicas {
            let url = &replica.url;
            let Some(address) = meridian_protocol::address::authority(url) else { continue };
            match serves {
                _ if decided.contains(&address) => {}
                true => {
                    if let Err(problem) = self.take(&address, replica, state) {
                        left_out += usize::from(problem.is_full());
                        problems.insert(problem.to_string());
                    }
                }
                false => {
                    if let Some(member) = state.ours.get(&address) {
                        self.replicas.drain(member, NotReady);
                    }
                }
            }
            found.insert(address);
        }
        // Another source may take one over while it drains, so it no longer belongs to this one.
        state.ours.retain(|address, member| {
            let stays = found.contains(address);
            if !stays {
                self.replicas.let_go(member, Unlisted);
            }
            stays
        });
        for problem in problems.difference(&state.problems) {
            tracing::warn!(source = self.label, problem, left_out, "replicas ignored");
        }
        (state.problems, state.left_out) = (problems, left_out);
    }

    /// Adds a replica, or leaves it as it is.
    fn take(
        &self,
        address: &str,
        spec: AddReplica,
        state: &mut SourceState,
    ) -> Result<(), JoinError> {
        let known = state.ours.get(address).cloned();
        let known = match known.or_else(|| self.replicas.at(address)) {
            // Another source has ended, or found it no more.
            Some(there) if state.ours.contains_key(address) || there.drains.has(Unlisted) => {
                Some(there)
            }
            Some(_) => return Ok(()),
            None => None,
        };
        let (member, is_new) = self.place(known, spec)?;
        if is_new {
            tracing::info!(source = self.label, replica = %member.name, url = address, "replica found");
        }
        self.replicas.resume(&member, Unlisted);
        self.replicas.resume(&member, NotReady);
        state.ours.insert(address.to_owned(), member);
        Ok(())
    }

    /// Adds the replica, unless it is `known` as described. Names of pods are unique in a namespace
    /// only: a pod whose name is another replica's here gets a number.
    fn place(
        &self,
        known: Option<Arc<Member>>,
        mut spec: AddReplica,
    ) -> Result<(Arc<Member>, bool), JoinError> {
        let names_pods = self.config.kubernetes.is_some();
        if names_pods && known.as_ref().is_some_and(|known| known.spec.name.is_none()) {
            spec.name = None;
        }
        let place = |spec| self.replicas.place(known.clone(), spec, meridian_base::Duration::ZERO);
        match place(spec.clone()) {
            Err(JoinError::Name(..)) if names_pods => place(AddReplica { name: None, ..spec }),
            placed => placed,
        }
    }

    /// Waits until the next poll.
    pub(super) async fn rest(&self, pause: Duration) {
        tokio::select! {
            () = sleep(pause) => {}
            () = self.again.notified() => {}
        }
    }
}
