//! Notices that a replica's list of models changed: engines load and unload LoRA adapters at run
//! time.
//!
//! Together with a probe, at most once in the idle interval of the probes, the list is read and
//! compared with the one that discovery found. A difference wakes discovery, which alone writes the
//! findings. So does an engine that does not serve a model of its list.

use meridian_base::Time;
use meridian_protocol::openai;

use crate::machine::driver::Driver;
use crate::replicas::discovery::{MODELS, page};
use crate::replicas::member::Member;
use crate::replicas::questions::Questions;

/// Compares the list of a replica whose engine loads adapters, with a probe that started at `now`.
pub(super) async fn lists(driver: &Driver, questions: &Questions, member: &Member, now: Time) {
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
