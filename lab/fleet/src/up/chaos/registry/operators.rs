//! Operators who change the registry while parts of it are broken: one for each region.
//!
//! Each takes a replica of its region out of service and back, in several ways, or sets a label of the
//! region. A change goes to any control plane, and is repeated at another one until it is acknowledged.
//! An attempt without an answer may be carried out later, when a suspended control plane goes on; so an
//! operator may find its own earlier change.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::Method;
use meridian_base::Rng;
use meridian_protocol::registry::{Region, Replica, Snapshot, Wanted};
use serde::Deserialize;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::super::super::planes::Planes;
use super::super::run::CALM;
use crate::{Answer, Operator, Result};

/// Timeout of an attempt: a control plane says within 8 s that etcd is lost.
const ATTEMPT: Duration = Duration::from_secs(10);
/// A change that is not acknowledged after this time is a problem.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause before the next attempt, and before the next change, ms.
const AGAIN: Duration = Duration::from_millis(200);
const PAUSE_MS: [usize; 2] = [200, 1200];
/// The label that operators set.
pub(super) const LABEL: &str = "shift";

/// One change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Add,
    Drain,
    Undrain,
    Remove,
    Forget,
    Label,
}

/// What may be done with a replica, from up to up again.
const WAYS: [&[Step]; 3] = [
    &[Step::Drain, Step::Undrain],
    &[Step::Remove, Step::Add],
    &[Step::Remove, Step::Forget, Step::Add],
];

/// A change that was acknowledged.
#[derive(Debug, Clone)]
pub(super) struct Acked {
    pub(super) step: Step,
    /// The replica, or the region.
    pub(super) name: String,
    pub(super) revision: u64,
    /// The label's value.
    pub(super) value: String,
}

/// What happened to all operators.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) acked: Vec<Acked>,
    /// Attempts that were refused with 5xx.
    pub(super) refused: u64,
    /// Attempts without an answer.
    pub(super) unanswered: u64,
    /// Changes that were found made after an attempt without an answer.
    pub(super) found: u64,
    pub(super) wrong: Vec<String>,
}

/// The operators of a run.
pub(super) struct Operators {
    tasks: JoinSet<()>,
    stop: CancellationToken,
    books: Arc<Mutex<Books>>,
}

struct One {
    region: String,
    /// The replicas as they should be in the end.
    replicas: Vec<(String, Replica)>,
    /// Addresses of the control planes.
    planes: Vec<String>,
    operator: Operator,
    rng: Rng,
    books: Arc<Mutex<Books>>,
}

/// A record of a list, as far as it matters.
#[derive(Deserialize)]
struct Listed<R> {
    name: String,
    revision: u64,
    #[serde(flatten)]
    record: R,
}

/// The desired state of a replica in a list.
#[derive(Deserialize)]
struct OperatorState {
    wanted: Wanted,
}

/// What an attempt came to.
enum Tried {
    Made,
    /// Another attempt is needed, perhaps after another change.
    Again(Option<Step>),
    Wrong(String),
}

impl Step {
    pub(super) fn word(self) -> &'static str {
        match self {
            Step::Add => "replica added",
            Step::Drain => "replica drained",
            Step::Undrain => "replica undrained",
            Step::Remove => "replica removed",
            Step::Forget => "replica forgotten",
            Step::Label => "region's label set",
        }
    }
}

impl Operators {
    /// One for each region of the registry.
    pub(super) fn start(planes: &Planes, registry: &Snapshot, seed: u64) -> Result<Operators> {
        let (mut tasks, stop) = (JoinSet::new(), CancellationToken::new());
        let books = Arc::new(Mutex::new(Books::default()));
        for (nth, region) in (0..).zip(registry.regions.keys()) {
            let here = registry.replicas.iter().filter(|(_, one)| one.region == *region);
            let one = One {
                region: region.clone(),
                replicas: here.map(|(name, one)| (name.clone(), one.clone())).collect(),
                planes: planes.urls(0),
                operator: planes.operator()?,
                rng: Rng::new(seed).fork(1000 + nth),
                books: books.clone(),
            };
            tasks.spawn(one.work_until(stop.clone()));
        }
        Ok(Operators { tasks, stop, books })
    }

    /// Waits until every operator has finished its work and all replicas are up.
    pub(super) async fn end(&mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }

    /// What happened to all of them.
    pub(super) fn books(&self) -> Books {
        std::mem::take(&mut *lock(&self.books))
    }
}

fn lock(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}

impl One {
    async fn work_until(mut self, stop: CancellationToken) {
        tokio::time::sleep(CALM).await;
        let mut shift = 0;
        while !stop.is_cancelled() {
            shift += 1;
            if self.rng.below(2) == 0 {
                self.make(Step::Label, None, &shift.to_string()).await;
            } else {
                let replica = self.rng.below(self.replicas.len());
                for step in WAYS[self.rng.below(WAYS.len())] {
                    self.make(*step, Some(replica), "").await;
                    self.pause().await;
                }
            }
            self.pause().await;
        }
        // Attempts without an answer may have been carried out since.
        tokio::time::sleep(ATTEMPT).await;
        self.restore().await;
    }

    async fn pause(&mut self) {
        let ms = PAUSE_MS[0] + self.rng.below(PAUSE_MS[1] - PAUSE_MS[0]);
        tokio::time::sleep(Duration::from_millis(ms as u64)).await;
    }

    /// Makes a change, with as many attempts as it needs.
    async fn make(&mut self, step: Step, replica: Option<usize>, value: &str) {
        let began = Instant::now();
        let mut first = None;
        while began.elapsed() < PATIENCE {
            let now = first.take().unwrap_or(step);
            match self.attempt(now, replica, value).await {
                Tried::Made if now == step => return,
                Tried::Made => {}
                Tried::Again(before) => {
                    first = before;
                    tokio::time::sleep(AGAIN).await;
                }
                Tried::Wrong(why) => {
                    lock(&self.books).wrong.push(why);
                    return;
                }
            }
        }
        let name = self.name(replica);
        let why = format!("{name}: {} was not acknowledged in {PATIENCE:?}", step.word());
        lock(&self.books).wrong.push(why);
    }

    fn name(&self, replica: Option<usize>) -> String {
        replica.map_or_else(|| self.region.clone(), |at| self.replicas[at].0.clone())
    }

    async fn attempt(&mut self, step: Step, replica: Option<usize>, value: &str) -> Tried {
        let name = self.name(replica);
        let path = format!("/admin/replicas/{name}");
        let answer = match step {
            Step::Add => {
                let record = replica.map(|at| &self.replicas[at].1);
                let record = serde_json::to_string(&record).unwrap_or_default();
                self.ask(Method::PUT, &path, record).await
            }
            Step::Drain => self.ask(Method::POST, &format!("{path}/drain"), String::new()).await,
            Step::Undrain => {
                self.ask(Method::POST, &format!("{path}/undrain"), String::new()).await
            }
            Step::Remove => self.ask(Method::DELETE, &path, String::new()).await,
            Step::Forget => {
                self.ask(Method::DELETE, &format!("{path}?forget=true"), String::new()).await
            }
            Step::Label => self.label(value).await,
        };
        let Some(answer) = answer else { return Tried::Again(None) };
        let said = answer.value();
        match (answer.status, step) {
            (200 | 201, _) => {
                let revision = said["revision"].as_u64().unwrap_or_default();
                let value = value.to_owned();
                lock(&self.books).acked.push(Acked { step, name, revision, value });
                Tried::Made
            }
            // An earlier attempt was carried out after all.
            (404, Step::Forget) => {
                lock(&self.books).found += 1;
                Tried::Made
            }
            (409, Step::Add) if said["error"]["code"] == "name_taken" => {
                lock(&self.books).found += 1;
                let is_up = self.states().await.unwrap_or_default().get(&name) == Some(&Wanted::Up);
                if is_up { Tried::Made } else { Tried::Again(Some(Step::Undrain)) }
            }
            (409, Step::Forget) => Tried::Again(Some(Step::Remove)),
            (409, Step::Label) => Tried::Again(None),
            (status, _) => Tried::Wrong(format!(
                "{name}: {} was refused with {status}: {}",
                step.word(),
                said["error"]["message"]
            )),
        }
    }

    /// Sets the label of the region, if its record has not changed since it was read.
    async fn label(&mut self, value: &str) -> Option<Answer> {
        let regions: Vec<Listed<Region>> = self.list("/admin/regions").await?;
        let listed = regions.into_iter().find(|listed| listed.name == self.region)?;
        let mut region = listed.record;
        region.labels.insert(LABEL.to_owned(), value.to_owned());
        let path = format!("/admin/regions/{}?at={}", self.region, listed.revision);
        self.ask(Method::PUT, &path, serde_json::to_string(&region).ok()?).await
    }

    async fn states(&mut self) -> Option<BTreeMap<String, Wanted>> {
        let all: Vec<Listed<OperatorState>> = self.list("/admin/replicas").await?;
        Some(all.into_iter().map(|one| (one.name, one.record.wanted)).collect())
    }

    async fn list<R: serde::de::DeserializeOwned>(&mut self, path: &str) -> Option<Vec<R>> {
        let answer = self.ask(Method::GET, path, String::new()).await?;
        serde_json::from_slice(&answer.body).ok()
    }

    /// One request to any control plane; none if it has to be repeated.
    async fn ask(&mut self, method: Method, path: &str, body: String) -> Option<Answer> {
        let plane = &self.planes[self.rng.below(self.planes.len())];
        let asked = self.operator.ask(method, &format!("{plane}{path}"), body, ATTEMPT).await;
        let mut books = lock(&self.books);
        match asked {
            Ok(answer) if answer.status >= 500 => books.refused += 1,
            Ok(answer) => return Some(answer),
            Err(_) => books.unanswered += 1,
        }
        None
    }

    /// Brings all replicas back.
    async fn restore(&mut self) {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let Some(states) = self.states().await else {
                tokio::time::sleep(AGAIN).await;
                continue;
            };
            let wrong = |(_, (name, _)): &(usize, &(String, Replica))| {
                states.get(name) != Some(&Wanted::Up)
            };
            let Some((at, _)) = self.replicas.iter().enumerate().find(wrong) else { return };
            let step = match states.get(&self.replicas[at].0) {
                Some(Wanted::Draining) => Step::Undrain,
                _ => Step::Add,
            };
            self.make(step, Some(at), "").await;
        }
        lock(&self.books).wrong.push(format!("{}: not all replicas came back", self.region));
    }
}

/// Whether a record shows a change.
pub(super) fn shows(acked: &Acked, record: Option<&[u8]>) -> bool {
    let Some(record) = record else { return acked.step == Step::Forget };
    let record: Value = serde_json::from_slice(record).unwrap_or_default();
    let wanted = record["wanted"].as_str().unwrap_or("up");
    match acked.step {
        Step::Add | Step::Undrain => wanted == "up",
        Step::Drain => wanted == "draining",
        Step::Remove => wanted == "removed",
        Step::Forget => false,
        Step::Label => record["labels"][LABEL] == acked.value.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Each change has its own effect on a record.
    #[test]
    fn effects() {
        let acked = |step| Acked { step, name: "a".into(), revision: 7, value: "3".into() };
        let removed = br#"{"region":"eu","wanted":"removed","labels":{"shift":"3"}}"#.as_slice();
        assert!(shows(&acked(Step::Remove), Some(removed)));
        assert!(!shows(&acked(Step::Add), Some(removed)));
        assert!(shows(&acked(Step::Label), Some(removed)));
        assert!(!shows(&acked(Step::Forget), Some(removed)));
        assert!(shows(&acked(Step::Forget), None));
        assert!(!shows(&acked(Step::Remove), None));
    }
}
