//! The region's replicas as the driver knows them: addresses, engines, model names.
//!
//! The machine speaks of ids; this file is where they get their meaning. Readers take a shared
//! lock for as long as it takes to clone an `Arc`.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::HeaderValue;
use http::uri::Authority;
use meridian_base::{Duration, ModelId, ReplicaId};
use meridian_routing::residency::Place;
use meridian_wire::admin::{AddReplica, EngineName};
use tokio_util::sync::CancellationToken;

use crate::lock::RwLock;
use crate::way::Way;

/// One replica.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) id: ReplicaId,
    /// Its host and port, by which everybody knows it.
    pub(crate) authority: Authority,
    /// Where it is reached from here.
    pub(crate) dial: Authority,
    pub(crate) spec: AddReplica,
    /// Round trip to it as it is known of its region; zero where that is not known.
    pub(crate) known_rtt: Duration,
    /// The way to it, as its probes find it.
    pub(crate) way: Way,
    /// The region that it stands in, as a header value.
    pub(crate) region: HeaderValue,
    /// Its place, for residency rules.
    pub(crate) place: Arc<Place>,
    /// Its id as a header value.
    pub(crate) label: HeaderValue,
    /// What it turned out to be.
    pub(crate) found: RwLock<Found>,
    /// Ends its discovery and probes.
    pub(crate) gone: CancellationToken,
}

/// What discovery found out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) engine: Option<EngineName>,
    pub(crate) models: Vec<String>,
    pub(crate) kv_tokens: Option<u64>,
    pub(crate) slots: Option<u32>,
    /// Its `/v1/models`, as it answered.
    pub(crate) page: Bytes,
}

impl Member {
    /// Round trip to it: zero within the region.
    pub(crate) fn rtt(&self) -> Duration {
        if self.known_rtt.is_zero() { self.way.rtt() } else { self.known_rtt }
    }

    pub(crate) fn found(&self) -> Found {
        self.found.read().clone()
    }

    pub(crate) fn engine(&self) -> Option<EngineName> {
        self.found.read().engine
    }

    /// Its model list; none before discovery.
    pub(crate) fn models_page(&self) -> Option<Bytes> {
        let page = self.found.read().page.clone();
        (!page.is_empty()).then_some(page)
    }

    /// Whether it divides its prefix cache by `cache_salt`. Others may refuse a field that they do
    /// not know.
    pub(crate) fn reads_salts(&self) -> bool {
        matches!(self.engine(), Some(EngineName::Vllm | EngineName::Sglang))
    }

    /// Whether it answers with its load in a header when asked to.
    pub(crate) fn speaks_orca(&self) -> bool {
        self.engine() == Some(EngineName::Vllm)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Fleet {
    /// The gateway's region.
    region: String,
    inner: RwLock<Inner>,
    over: CancellationToken,
    /// Counts changes of who is there and of what they serve.
    version: AtomicU64,
}

#[derive(Debug, Default)]
struct Inner {
    members: Vec<Option<Arc<Member>>>,
    models: HashMap<String, ModelId>,
}

/// Why a replica cannot join.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinError {
    #[error("url: {0}")]
    Url(String),
    #[error("url: `{0}` is a replica of this region already; remove it first")]
    Twin(String),
    #[error("region: `{0}` is no name; use letters, digits and hyphens")]
    Region(String),
    #[error("weight: 0 would never be picked; use 1 or more")]
    Weight,
    #[error("limits.replicas: {0} replicas are there already; raise the limit or remove one")]
    Full(usize),
}

impl Fleet {
    /// A region's fleet, whose replicas are all let go when `over` is cancelled.
    pub(crate) fn new(region: &str, over: CancellationToken) -> Fleet {
        Fleet { region: region.to_owned(), over, ..Fleet::default() }
    }

    /// Enters a replica under the lowest free id. It stands where its spec says, else in the
    /// gateway's region.
    pub(crate) fn join(
        &self,
        spec: AddReplica,
        rtt: Duration,
        most: u16,
    ) -> Result<Arc<Member>, JoinError> {
        let dial = authority(spec.url_from(&self.region))?;
        let authority = authority(&spec.url)?;
        let mut inner = self.inner.write();
        if inner.members.iter().flatten().any(|m| m.authority == authority) {
            return Err(JoinError::Twin(spec.url));
        }
        if spec.weight == 0 {
            return Err(JoinError::Weight);
        }
        let free = inner.members.iter().position(Option::is_none);
        let at = free.unwrap_or(inner.members.len());
        if at >= usize::from(most) {
            return Err(JoinError::Full(usize::from(most)));
        }
        let id = ReplicaId(at as u16);
        let label =
            HeaderValue::from_str(&id.to_string()).expect("`r` and digits are a header value");
        let region = spec.region.clone().unwrap_or_else(|| self.region.clone());
        let place = Arc::new(Place { region: region.clone(), labels: spec.labels.clone() });
        let region = HeaderValue::from_str(&region).map_err(|_| JoinError::Region(region))?;
        let found = RwLock::new(Found::default());
        let member = Arc::new(Member {
            id,
            authority,
            dial,
            spec,
            known_rtt: rtt,
            way: Way::default(),
            region,
            place,
            label,
            found,
            gone: self.over.child_token(),
        });
        match free {
            Some(at) => inner.members[at] = Some(member.clone()),
            None => inner.members.push(Some(member.clone())),
        }
        self.changed();
        Ok(member)
    }

    /// Takes a replica out.
    pub(crate) fn leave(&self, id: ReplicaId) -> Option<Arc<Member>> {
        let mut inner = self.inner.write();
        let member = inner.members.get_mut(id.index())?.take()?;
        member.gone.cancel();
        self.changed();
        Some(member)
    }

    fn changed(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Notes what a replica turned out to be.
    pub(crate) fn found(&self, member: &Member, found: Found) {
        *member.found.write() = found;
        self.changed();
    }

    /// Differs whenever [`Fleet::served`] may.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The models that replicas serve, each once, at most so many.
    pub(crate) fn served(&self, most: usize) -> Vec<String> {
        let all: BTreeSet<String> = self.all().iter().flat_map(|m| m.found().models).collect();
        all.into_iter().take(most).collect()
    }

    pub(crate) fn get(&self, id: ReplicaId) -> Option<Arc<Member>> {
        self.inner.read().members.get(id.index())?.clone()
    }

    /// The replica with this host and port.
    pub(crate) fn at(&self, authority: &str) -> Option<Arc<Member>> {
        let inner = self.inner.read();
        inner.members.iter().flatten().find(|m| m.authority == authority).cloned()
    }

    /// Whether some replica has not said yet what it serves, or none is there.
    pub(crate) fn is_unknown(&self) -> bool {
        let all = self.all();
        all.is_empty() || all.iter().any(|m| m.engine().is_none())
    }

    pub(crate) fn all(&self) -> Vec<Arc<Member>> {
        self.inner.read().members.iter().flatten().cloned().collect()
    }

    /// A model that is served now, for requests that name none.
    pub(crate) fn any_model(&self) -> Option<ModelId> {
        let inner = self.inner.read();
        let first = |m: &Arc<Member>| m.found().models.first().cloned();
        let name = inner.members.iter().flatten().find_map(first)?;
        inner.models.get(&name).copied()
    }

    /// The id of a model that some replica serves or served.
    pub(crate) fn model(&self, name: &str) -> Option<ModelId> {
        self.inner.read().models.get(name).copied()
    }

    /// The name of a model. Asked seldom: it is searched for.
    pub(crate) fn name(&self, id: ModelId) -> Option<String> {
        let inner = self.inner.read();
        inner.models.iter().find(|(_, model)| **model == id).map(|(name, _)| name.clone())
    }

    /// Gives a model that a replica serves, here or at a peer, its id. Names come from engines,
    /// never from requests, so they are few.
    pub(crate) fn intern(&self, name: &str) -> Option<ModelId> {
        let mut inner = self.inner.write();
        if let Some(id) = inner.models.get(name) {
            return Some(*id);
        }
        let id = ModelId(u16::try_from(inner.models.len()).ok()?);
        inner.models.insert(name.to_owned(), id);
        Some(id)
    }
}

fn authority(url: &str) -> Result<Authority, JoinError> {
    let uri = meridian_wire::config::base_url(url).map_err(JoinError::Url)?;
    uri.authority().cloned().ok_or_else(|| JoinError::Url(url.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(url: &str) -> AddReplica {
        AddReplica::at(url)
    }

    // Ids are the lowest free ones; twins and a full region are refused with the remedy.
    #[test]
    fn join_and_leave() {
        let fleet = Fleet::default();
        for (i, url) in ["http://a:1", "http://b:1"].iter().enumerate() {
            assert_eq!(fleet.join(spec(url), Duration::ZERO, 2).expect("joins").id.index(), i);
        }
        assert!(
            fleet
                .join(spec("http://a:1/"), Duration::ZERO, 3)
                .is_err_and(|e| e.to_string().contains("already"))
        );
        assert!(
            fleet
                .join(spec("http://c:1"), Duration::ZERO, 2)
                .is_err_and(|e| e.to_string().contains("limits.replicas"))
        );
        assert!(fleet.leave(ReplicaId(0)).expect("was there").gone.is_cancelled());
        assert!(fleet.leave(ReplicaId(0)).is_none());
        assert_eq!(
            fleet.join(spec("http://c:1"), Duration::ZERO, 2).expect("joins").id,
            ReplicaId(0)
        );
    }
}
