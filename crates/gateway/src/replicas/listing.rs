//! Notices that a replica's list of models changed: engines load and unload LoRA adapters at run
//! time.
//!
//! Together with a probe, at most once in the idle interval of the probes, the list is read and
//! compared with the one that discovery found. A difference wakes discovery, which alone writes the
//! findings. So does an engine that does not serve a model of its list.

use meridian_base::{Duration, Time};
use meridian_wire::openai;
use tokio::sync::Notify;

use crate::lock::Mutex;
use crate::machine::driver::Driver;
use crate::replicas::discovery::{MODELS, page};
use crate::replicas::fleet::Member;
use crate::replicas::questions::Questions;

/// The state of the comparisons of one replica.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    compared: Mutex<Option<Time>>,
    changed: Notify,
}

impl Listing {
    /// The list is not what discovery found.
    pub(crate) fn changed(&self) {
        self.changed.notify_one();
    }

    /// Waits for a change since the last call returned.
    pub(crate) async fn until_changed(&self) {
        self.changed.notified().await;
    }

    /// Whether a probe that starts now should compare the list.
    fn is_due(&self, now: Time, pace: Duration) -> bool {
        let mut compared = self.compared.lock();
        let is_due = compared.is_none_or(|at| now.since(at) >= pace);
        if is_due {
            *compared = Some(now);
        }
        is_due
    }
}

/// Compares the list of a replica whose engine loads adapters, with a probe that started at `now`.
pub(super) async fn compare(driver: &Driver, questions: &Questions, member: &Member, now: Time) {
    let loads = member.engine().is_some_and(|engine| engine.loads_adapters);
    if !loads || !member.spec.models.is_empty() {
        return;
    }
    let pace = driver.lock().routing.config().probe.idle;
    if !member.listing.is_due(now, pace) {
        return;
    }
    // An unreadable list changes nothing here; discovery reports it.
    let Ok(list) = page(questions, member, MODELS).await else { return };
    let found = member.found();
    if list == found.page {
        return;
    }
    // vLLM's list has the time of the answer and random ids, so that no two are the same.
    let is_other = |models: Vec<String>| models != found.models;
    if openai::model_ids(&list).is_ok_and(is_other) {
        member.listing.changed();
    }
}
