//! The region's replicas in the driver: addresses, engines, model names.
//!
//! The machine uses ids; this file maps them. Readers hold a shared lock just long enough to clone
//! an `Arc`.

mod of_machine;
mod only_model;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use http::HeaderValue;
use meridian_base::residency::Place;
use meridian_base::{Duration, ModelId, ReplicaId, Time};
use meridian_protocol::admin::AddReplica;
use meridian_protocol::peer::{IdentityError, label};
use meridian_routing::{MOST_REPLICA_IDS, State};
use tokio_util::sync::CancellationToken;

use crate::facts::name::ReplicaName;
use crate::lock::{Mutex, RwLock};
use crate::machine::clock::Clock;
use crate::model_ids::ModelIds;
use crate::replicas::credentials::{Credential, Credentials};
use crate::replicas::departed::Departed;
use crate::replicas::dial::Dial;
use crate::replicas::drains::Drains;
use crate::replicas::histories::Histories;
use crate::replicas::life::Life;
use crate::replicas::listing::Listing;
use crate::replicas::member::{Found, Member};
use crate::replicas::rtt::RoundTrip;
use crate::replicas::standing;

#[derive(Debug, Default)]
pub(crate) struct Fleet {
    /// The gateway's region.
    region: String,
    credentials: Arc<Credentials>,
    inner: RwLock<Inner>,
    pub(crate) clock: Clock,
    /// The numbers of its models and its peers'.
    pub(crate) models: Arc<ModelIds>,
    /// Those that no replica serves any more.
    pub(crate) departed: Departed,
    /// When its replicas were up and down.
    pub(crate) histories: Histories,
    over: CancellationToken,
    /// Counts changes of the members and their models.
    version: AtomicU64,
    /// The number of prefill replicas.
    prefills: AtomicUsize,
}

/// The number of departed replicas whose URLs are kept.
const MOST_LEFT: usize = 1024;

#[derive(Debug, Default)]
struct Inner {
    slots: Vec<Slot>,
    /// The members' ids by host and port in lower case: a discovered fleet has thousands, and each
    /// poll looks up every one of them.
    at: HashMap<String, ReplicaId>,
    /// The members' ids by the name that they were given.
    named: HashMap<String, ReplicaId>,
    /// The models that a prefill replica serves.
    prefilled: Vec<ModelId>,
    /// The replicas that left, the oldest first.
    left: VecDeque<Left>,
}

/// A replica that left, for explanations of decisions about it.
#[derive(Debug)]
struct Left {
    id: ReplicaId,
    url: String,
    name: Option<String>,
    /// A time after the last decision about it.
    at: Time,
}

/// The slot of one id.
#[derive(Debug, Default)]
struct Slot {
    member: Option<Arc<Member>>,
    /// Number of replicas that had the id.
    had: u32,
    /// The last one is gone, and the machine may not have been informed yet.
    leaving: bool,
}

impl Inner {
    fn members(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.slots.iter().filter_map(|slot| slot.member.as_ref())
    }

    /// Notes the models of the prefill replicas, after they may have changed.
    fn note_prefilled(&mut self, models: &ModelIds) {
        let mut ids: Vec<ModelId> = Vec::new();
        for member in self.members().filter(|member| member.is_prefill()) {
            let found = member.found.read();
            ids.extend(found.models.iter().filter_map(|name| models.get(name)));
        }
        ids.sort_unstable();
        ids.dedup();
        self.prefilled = ids;
    }

    /// Of the models of a replica that left, those that no other one serves.
    fn last_served(&self, left: &Member) -> Vec<String> {
        let mut models = left.found().models;
        models.retain(|model| !self.members().any(|m| m.found.read().models.contains(model)));
        models
    }

    /// The member that has this name, given or not.
    fn called(&self, name: &str) -> Option<&Arc<Member>> {
        let given = self.named.get(name).copied();
        let member = self.slots.get(given.or_else(|| ReplicaName::id(name))?.index())?;
        member.member.as_ref().filter(|member| given.is_some() || member.name.to_string() == name)
    }

    /// A name for a new replica that no other one has.
    fn name(&self, id: ReplicaId, given: Option<&str>) -> Result<ReplicaName, JoinError> {
        let Some(given) = given else {
            let mut before = self.slots[id.index()].had;
            while self.called(&ReplicaName::new(id, before).to_string()).is_some() {
                before += 1;
            }
            return Ok(ReplicaName::new(id, before));
        };
        let mut before = 0;
        loop {
            let name = ReplicaName::given(id, given, before);
            match self.called(&name.to_string()) {
                None => return Ok(name),
                Some(other) if !other.drains.is_leaving() => {
                    return Err(JoinError::Name(given.to_owned(), other.spec.url.clone()));
                }
                Some(_) => before += 1,
            }
        }
    }

    fn at(&self, authority: &str) -> Option<&Arc<Member>> {
        let id = self.at.get(&authority.to_ascii_lowercase())?;
        self.slots.get(id.index())?.member.as_ref()
    }
}

/// Why a replica can't join.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinError {
    #[error("url: {0}")]
    Url(String),
    #[error("url: `{0}` is a replica of this region already; remove that one first")]
    Twin(String),
    #[error("name: `{0}` is the name of {1} here; give this one another, or remove that one first")]
    Name(String, String),
    #[error(
        "credentials: `{0}` is not in the section `credentials` of this gateway's file; add it there"
    )]
    Credentials(String),
    #[error(transparent)]
    Region(#[from] IdentityError),
    #[error("weight: 0 would never get a request; use 1 or more")]
    Weight,
    #[error("{0}")]
    Pool(String),
    #[error(
        "limits.replicas: the gateway has {0} replicas, as many as it may; raise the limit (to at most {MOST_REPLICA_IDS}), or remove a replica"
    )]
    Full(u16),
}

impl JoinError {
    /// Whether only `limits.replicas` keeps the replica out.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, JoinError::Full(_))
    }
}

impl Fleet {
    /// A region's fleet, which drops all replicas when `over` is cancelled.
    pub(crate) fn new(
        region: &str,
        credentials: Arc<Credentials>,
        over: CancellationToken,
    ) -> Fleet {
        Fleet { region: region.to_owned(), credentials, over, ..Fleet::default() }
    }

    /// The replica's own address, and the one to connect to from here.
    ///
    /// # Errors
    /// If an address is invalid, its credentials are unknown, or its region is not a name.
    pub(crate) fn can_dial(&self, spec: &AddReplica) -> Result<[Arc<Dial>; 2], JoinError> {
        let with = self.credentials.get(spec.credentials.as_deref());
        let unknown = || JoinError::Credentials(spec.credentials.clone().unwrap_or_default());
        let with = with.ok_or_else(unknown)?;
        label("region", spec.region.as_deref().unwrap_or(&self.region))?;
        Ok([dial(&spec.url, &with)?, dial(spec.url_from(&self.region), &with)?])
    }

    /// Adds a replica under the lowest free id. Its region comes from its spec, else it is the
    /// gateway's.
    pub(crate) fn join(
        &self,
        spec: AddReplica,
        rtt: Duration,
        most: u16,
    ) -> Result<Arc<Member>, JoinError> {
        let [own, dial] = self.can_dial(&spec)?;
        let authority = own.at.clone();
        let mut inner = self.inner.write();
        if inner.at(authority.as_str()).is_some() {
            return Err(JoinError::Twin(spec.url));
        }
        check(&spec)?;
        let region = spec.region.clone().unwrap_or_else(|| self.region.clone());
        let is_free = |slot: &Slot| slot.member.is_none() && !slot.leaving;
        let at = inner.slots.iter().position(is_free).unwrap_or(inner.slots.len());
        if at >= usize::from(most) {
            return Err(JoinError::Full(most));
        }
        if at == inner.slots.len() {
            inner.slots.push(Slot::default());
        }
        assert!(at <= usize::from(u16::MAX), "id {at} would be another replica's");
        let id = ReplicaId(at as u16);
        let name = inner.name(id, spec.name.as_deref())?;
        let shown = HeaderValue::from_str(&name.to_string()).expect("a name is a header value");
        let place = Arc::new(Place { region: region.clone(), labels: spec.labels.clone() });
        let region = HeaderValue::from_str(&region).expect("a label is a header value");
        let found = RwLock::new(Found::default());
        let history = self.histories.joins(&authority, &spec.url);
        let member = Arc::new(Member {
            id,
            name,
            authority,
            dial,
            spec,
            known_rtt: rtt,
            round_trip: RoundTrip::default(),
            life: Life::default(),
            region,
            place,
            label: shown,
            found,
            history,
            clock: self.clock,
            trouble: Mutex::default(),
            transfers: Mutex::default(),
            listing: Listing::default(),
            drains: Drains::default(),
            gone: self.over.child_token(),
        });
        member.enters(standing::word(State::Unproven, false), "added");
        let before = inner.at.insert(member.authority.as_str().to_ascii_lowercase(), id);
        assert!(before.is_none(), "{before:?} and {id:?} are one replica");
        if let Some(given) = member.name.as_given() {
            inner.named.insert(given, id);
        }
        inner.slots[at].had += 1;
        inner.slots[at].member = Some(member.clone());
        self.prefills.fetch_add(usize::from(member.is_prefill()), Ordering::Relaxed);
        self.changed();
        Ok(member)
    }

    /// Removes a replica, unless it has left already: its id may be another's by now. Returns
    /// whether it was present. The id is free once the machine has been informed ([`Fleet::left`]).
    pub(crate) fn leave(&self, member: &Member) -> bool {
        let mut inner = self.inner.write();
        let Some(slot) = inner.slots.get_mut(member.id.index()) else { return false };
        if !slot.member.as_deref().is_some_and(|there| std::ptr::eq(there, member)) {
            return false;
        }
        assert!(!slot.leaving, "an id is given while its last replica leaves");
        slot.member = None;
        slot.leaving = true;
        let prefill = usize::from(member.is_prefill());
        let before = self.prefills.fetch_sub(prefill, Ordering::Relaxed);
        assert!(before >= prefill, "more prefill replicas leave than joined");
        let at = inner.at.remove(&member.authority.as_str().to_ascii_lowercase());
        assert_eq!(at, Some(member.id), "the address of a replica finds another one");
        let departed = inner.last_served(member);
        let departed = departed.iter().filter_map(|name| self.models.get(name));
        self.departed.left(departed, self.clock.now());
        if let Some(given) = member.name.as_given() {
            inner.named.remove(&given);
        }
        member.leaves();
        self.histories.leaves(&member.authority);
        if member.is_prefill() {
            inner.note_prefilled(&self.models);
        }
        self.changed();
        true
    }

    /// The machine has been informed, not later than `at`, that the replica left.
    pub(crate) fn left(&self, member: &Member, at: Time) {
        let mut inner = self.inner.write();
        if let Some(slot) = inner.slots.get_mut(member.id.index()) {
            assert!(slot.leaving, "a replica has left that was not leaving");
            slot.leaving = false;
        }
        let (url, name) = (member.spec.url.clone(), member.name.as_given());
        inner.left.push_back(Left { id: member.id, url, name, at });
        if inner.left.len() > MOST_LEFT {
            inner.left.pop_front();
        }
        assert!(inner.left.len() <= MOST_LEFT, "departed replicas are forgotten in time");
    }

    /// The URL of the replica that had the id at that time. `None` if it left too long ago.
    pub(crate) fn url(&self, id: ReplicaId, at: Time) -> Option<String> {
        self.then(id, at).map(|(url, _)| url)
    }

    /// The name that the replica with the id at that time was given.
    pub(crate) fn called(&self, id: ReplicaId, at: Time) -> Option<String> {
        self.then(id, at)?.1
    }

    /// The URL and the given name of the replica that had the id at that time.
    fn then(&self, id: ReplicaId, at: Time) -> Option<(String, Option<String>)> {
        let inner = self.inner.read();
        if let Some(left) = inner.left.iter().find(|left| left.id == id && at <= left.at) {
            return Some((left.url.clone(), left.name.clone()));
        }
        let remembers = inner.left.len() < MOST_LEFT || inner.left.front()?.at < at;
        let member = inner.slots.get(id.index())?.member.as_ref().filter(|_| remembers)?;
        Some((member.spec.url.clone(), member.name.as_given()))
    }

    /// Whether a request for this model may be split: it has a prefill replica.
    pub(crate) fn may_split(&self, model: ModelId) -> bool {
        self.prefills.load(Ordering::Relaxed) > 0 && self.inner.read().prefilled.contains(&model)
    }

    fn changed(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Notes the result of a replica's discovery.
    pub(crate) fn found(&self, member: &Member, found: Found) {
        let models = found.models.iter().filter_map(|name| self.models.intern(name));
        self.departed.came(models.collect::<Vec<_>>().into_iter());
        let changes = {
            let mut there = member.found.write();
            let changes = there.models != found.models;
            *there = found;
            changes
        };
        if changes && member.is_prefill() {
            self.inner.write().note_prefilled(&self.models);
        }
        self.changed();
    }

    /// Changes whenever [`Fleet::served`] may.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The models that replicas serve, each once, at most `most`.
    pub(crate) fn served(&self, most: usize) -> Vec<String> {
        let all: BTreeSet<String> = self.all().iter().flat_map(|m| m.found().models).collect();
        all.into_iter().take(most).collect()
    }

    pub(crate) fn get(&self, id: ReplicaId) -> Option<Arc<Member>> {
        self.inner.read().slots.get(id.index())?.member.clone()
    }

    /// The replica with a name, or with an id in digits.
    pub(crate) fn named(&self, name: &str) -> Option<Arc<Member>> {
        let called = self.inner.read().called(name).cloned();
        called.or_else(|| self.get(ReplicaId(name.parse().ok()?)))
    }

    /// The replica with this host and port.
    pub(crate) fn at(&self, authority: &str) -> Option<Arc<Member>> {
        self.inner.read().at(authority).cloned()
    }

    /// Whether any replica has not reported its models yet, or there is none.
    pub(crate) fn is_unknown(&self) -> bool {
        let all = self.all();
        all.is_empty() || all.iter().any(|m| m.engine().is_none())
    }

    pub(crate) fn all(&self) -> Vec<Arc<Member>> {
        self.inner.read().members().cloned().collect()
    }

    /// The first model that a replica serves.
    pub(crate) fn model_of(&self, id: ReplicaId) -> Option<ModelId> {
        self.models.get(self.get(id)?.found.read().models.first()?)
    }

    /// A model that is served now, for requests to any replica.
    pub(crate) fn any_model(&self) -> Option<ModelId> {
        let inner = self.inner.read();
        let first = |m: &Arc<Member>| m.found().models.first().cloned();
        let name = inner.members().find_map(first)?;
        self.models.get(&name)
    }
}

/// What is wrong with a description wherever it would be placed.
pub(crate) fn check(spec: &AddReplica) -> Result<(), JoinError> {
    if spec.weight == 0 {
        return Err(JoinError::Weight);
    }
    match meridian_protocol::admin::pool_problems(spec).into_iter().next() {
        Some(problem) => Err(JoinError::Pool(problem)),
        None => Ok(()),
    }
}

fn dial(url: &str, with: &Arc<Credential>) -> Result<Arc<Dial>, JoinError> {
    let uri = meridian_protocol::address::base_url(url).map_err(JoinError::Url)?;
    let dial = Dial::new(&uri, with.clone());
    dial.ok_or_else(|| JoinError::Url(format!("`{url}` has no host name for a certificate")))
}

#[cfg(test)]
mod tests;
