//! Compares the views of the registry after the faults: etcd's, the control planes' and the gateways'.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use meridian_protocol::registry::Snapshot;
use tokio::time::Instant;

use super::super::super::world::World;
use super::super::checks::Checks;
use super::operators::{Books, LABEL, Step, shows};
use super::planes;
use crate::etcd::{Found, list};
use crate::page::table;
use crate::{Client, Error, Operator, Result};

/// Timeout of a request; nothing is broken any more.
const ASKED: Duration = Duration::from_secs(10);
/// How long views may differ: the observed part of the registry goes on changing.
const SAME: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);

/// The registry, as a control plane shows it.
pub(super) async fn snapshot(operator: &Operator, plane: &str) -> Result<Snapshot> {
    let url = format!("{plane}/admin/registry");
    let answer = operator.ask(Method::GET, &url, String::new(), ASKED).await?;
    let wrong = |what: String| Error::Answer { url: url.clone(), what };
    if answer.status != 200 {
        return Err(wrong(format!("status {}", answer.status)));
    }
    serde_json::from_slice(&answer.body).map_err(|error| wrong(error.to_string()))
}

/// Checks that every acknowledged change is in the registry, that all control planes show the same
/// one, and that gateways agree. `before` is the registry before the first change. Returns the changes
/// as a table.
pub(super) async fn check(
    world: &World,
    before: &Snapshot,
    books: &Books,
    checks: &mut Checks,
) -> Result<String> {
    let Books { acked, refused, unanswered, found, wrong } = books;
    checks.none("changes that failed", wrong);
    checks.some("changes that were acknowledged", acked.len() as u64);
    let compacted = in_history(world, books, checks).await?;
    let now = same(world, &mut checks.faults).await?;
    as_before(before, &now, books, &mut checks.faults);
    let newest = acked.iter().map(|one| one.revision).max().unwrap_or_default();
    gateways(world, &now, newest, &mut checks.faults).await?;
    let mut steps: BTreeMap<Step, u64> = BTreeMap::new();
    acked.iter().for_each(|change| *steps.entry(change.step).or_default() += 1);
    let mut shown = table(&["change", "acknowledged"]);
    for (step, times) in &steps {
        shown.add_row([step.word(), &times.to_string()]);
    }
    Ok(format!(
        "{shown}\n   {} changes, looked up at their revisions ({compacted} too old for that); \
         attempts: {refused} refused (5xx), {unanswered} without an answer, {found} found made; \
         same views at revision {}",
        acked.len(),
        now.revision
    ))
}

/// Checks each acknowledged change at its own revision; returns how many are too old for that.
async fn in_history(world: &World, books: &Books, checks: &mut Checks) -> Result<u64> {
    let etcd = planes(world)?.etcd.as_ref().map(|etcd| etcd.endpoints()).unwrap_or_default();
    let (client, mut compacted, mut missing) = (Client::keeping(), 0, Vec::new());
    for change in &books.acked {
        let kind = if change.step == Step::Label { "region" } else { "replica" };
        let key = format!("meridian/desired/{kind}/{}", change.name);
        match list(&client, &etcd[0], &key, Some(change.revision), ASKED).await? {
            Found::Compacted => compacted += 1,
            Found::At(_, entries) => {
                let record = entries.iter().find(|entry| entry.key == key);
                if !shows(change, record.map(|entry| &entry.value[..])) {
                    let (name, step) = (&change.name, change.step.word());
                    missing.push(format!("{name}: {step} at revision {}", change.revision));
                }
            }
        }
    }
    checks.none("acknowledged changes that are not in the registry", &missing);
    Ok(compacted)
}

/// Waits until all control planes show the same registry at the same revision.
async fn same(world: &World, faults: &mut Vec<String>) -> Result<Snapshot> {
    let planes = planes(world)?;
    let (operator, give_up) = (planes.operator()?, Instant::now() + SAME);
    loop {
        let mut all = Vec::new();
        for plane in &planes.all {
            all.push(snapshot(&operator, &plane.admin).await?);
        }
        let first = all.swap_remove(0);
        if all.iter().all(|other| *other == first) {
            return Ok(first);
        }
        if Instant::now() > give_up {
            let shown = |one: &Snapshot| format!("{} at {}", one.store, one.revision);
            let shown: Vec<String> = [&first].into_iter().chain(&all).map(shown).collect();
            faults.push(format!("the control planes differ after {SAME:?}: {}", shown.join(", ")));
            return Ok(first);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// The operators have brought all replicas back; each region has its newest label.
fn as_before(before: &Snapshot, now: &Snapshot, books: &Books, faults: &mut Vec<String>) {
    if now.replicas != before.replicas {
        let differs = |name: &&String| now.replicas.get(*name) != before.replicas.get(*name);
        let names = before.replicas.keys().chain(now.replicas.keys());
        let names: Vec<&String> = names.filter(differs).collect();
        faults.push(format!("the records of {names:?} are not as operators left them"));
    }
    for (name, region) in &now.regions {
        let labels = books.acked.iter().filter(|one| one.step == Step::Label && one.name == *name);
        let newest = labels.max_by_key(|one| one.revision).map(|one| &one.value);
        if region.labels.get(LABEL) != newest {
            faults.push(format!(
                "the label of {name} is {:?}; {newest:?} was acknowledged last",
                region.labels.get(LABEL)
            ));
        }
    }
}

/// Waits until each gateway's view is that of the registry: the living gateways, its own replicas,
/// and a revision that has the newest change of an operator. What gateways observe is not part of it.
async fn gateways(
    world: &World,
    now: &Snapshot,
    newest: u64,
    faults: &mut Vec<String>,
) -> Result<()> {
    let (client, give_up) = (Client::new(), Instant::now() + SAME);
    for region in &world.regions {
        loop {
            let status = region.status(&client).await?.unwrap_or_default();
            let control = status.control.clone().unwrap_or_default();
            let known: Vec<&String> = now.gateways.keys().collect();
            let agrees = control.state == "up"
                && control.leased
                && control.revision >= newest
                && control.gateways.iter().collect::<Vec<_>>() == known
                && control.adopted.is_empty()
                && region.is_up(&status, &region.replicas);
            if agrees {
                break;
            }
            if Instant::now() > give_up {
                faults.push(format!(
                    "the gateway of {} does not agree with the registry at revision {}: {control:?}",
                    region.name, newest
                ));
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}
