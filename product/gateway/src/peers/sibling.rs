//! A gateway of the same region. It sends requests to the same replicas, so each tells the other what
//! its requests do there, and both know the replicas' queues, caches and speeds. It is no peer of the
//! machine: no request is forwarded to it.
//!
//! Records are collected for a moment, and told on the stream that the sibling opened. A stream begins
//! with everything about the requests in flight; so does whatever follows records that were lost.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::uri::Authority;
use meridian_base::{ReplicaId, SiblingId};
use meridian_protocol::admin::Sibling;
use meridian_protocol::peer::{Batches, SiblingBatch, Tell};
use meridian_routing::{Input, SiblingRecord};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tonic::Status;

use crate::inputs::rate::{RatesByTenant, Units};
use crate::machine::outbox::Outbox;
use crate::machine::siblings::SiblingQueue;
use crate::replicas::member::Member;
use crate::replicas::region::Region;

/// How long records are collected.
const COLLECTED: Duration = Duration::from_millis(2);
/// How long reasons to tell everything again are collected: a sibling asks about each of its replicas.
const RESTARTS: Duration = Duration::from_millis(20);

/// Most records that are passed to the machine at a time.
const MOST_AT_ONCE: usize = 64;

/// What was told to a sibling and heard from it, since the start.
#[derive(Debug, Default)]
pub(super) struct SiblingTraffic {
    told: [AtomicU64; 2],
    heard: [AtomicU64; 2],
}

impl SiblingTraffic {
    fn count(way: &[AtomicU64; 2], batch: &SiblingBatch) {
        let [records, bytes] = way;
        records.fetch_add(batch.len() as u64, Ordering::Relaxed);
        bytes.fetch_add(batch.bytes() as u64, Ordering::Relaxed);
    }

    /// Counts what was told.
    pub(super) fn told(&self, batch: &SiblingBatch) {
        SiblingTraffic::count(&self.told, batch);
    }

    pub(super) fn read(&self) -> Sibling {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let ([told, told_bytes], [heard, heard_bytes]) = (&self.told, &self.heard);
        Sibling {
            told: of(told),
            told_bytes: of(told_bytes),
            heard: of(heard),
            heard_bytes: of(heard_bytes),
        }
    }
}

/// Tells a sibling on its stream, until that ends. With `hashes`, its hashes of prompts are comparable.
pub(super) async fn tell(
    region: &Region,
    rates: &RatesByTenant,
    count: impl Fn(&SiblingBatch),
    queue: &SiblingQueue,
    send: &mpsc::Sender<Result<Tell, Status>>,
    hashes: impl Fn() -> bool,
) -> Result<Infallible, Status> {
    // The first message comes at once: a gateway that starts waits for it.
    let mut is_first = true;
    loop {
        queue.changed().await;
        if !std::mem::take(&mut is_first) {
            sleep(if queue.restarts() { RESTARTS } else { COLLECTED }).await;
        }
        let (restart, records) = region.driver.untold(queue);
        let (mut batches, hashes) = (Batches::new(restart), hashes());
        for queued in records {
            let replica = queued.replica.as_ref().map(Authority::as_str);
            match &*queued.record {
                SiblingRecord::Queue(lines) => {
                    batches.set_queue(lines, |model| region.fleet.models.name(model));
                }
                record => batches.push(record, replica, hashes),
            }
        }
        let units = match restart {
            true => rates.levels(),
            false => queue.take_units().into_iter().collect(),
        };
        for (tenant, Units { requests, tokens }) in units {
            batches.push_units((tenant, requests, tokens));
        }
        for batch in batches.finish() {
            count(&batch);
            send.send(Ok(Tell::Siblings(batch))).await.map_err(gone)?;
        }
    }
}

/// Queues for siblings what tenants take from their limits.
pub(super) async fn collect_units(outbox: Arc<Outbox>, rates: Arc<RatesByTenant>) {
    loop {
        rates.shared.changed().await;
        sleep(COLLECTED).await;
        outbox.siblings.push_units(&rates.shared.take());
    }
}

/// Charges what tenants took at a sibling.
pub(super) fn charge(rates: &RatesByTenant, batch: &SiblingBatch) {
    for (tenant, requests, tokens) in batch.taken() {
        if let Some(rates) = rates.by_hash(tenant) {
            rates.took_elsewhere(Units { requests, tokens });
        }
    }
    for (tenant, requests, tokens) in batch.levels() {
        if let Some(rates) = rates.by_hash(tenant) {
            rates.rise_to(Units { requests, tokens });
        }
    }
}

/// The connection closed the other half of the stream.
pub(super) fn gone<T>(_: T) -> Status {
    Status::cancelled("the connection is gone")
}

/// Which hashes of a sibling mean the same here.
#[derive(Clone, Copy)]
pub(super) struct Known {
    /// Of tenants and sessions.
    pub(super) names: bool,
    /// Of prompts.
    pub(super) prefixes: bool,
}

/// Passes a sibling's records to the machine. Without common names, tenants take turns at each gateway for
/// itself.
pub(super) fn hear(
    region: &Region,
    from: SiblingId,
    traffic: &SiblingTraffic,
    batch: SiblingBatch,
    known: Known,
) {
    SiblingTraffic::count(&traffic.heard, &batch);
    let restarts = batch.restarts().then_some(Input::SiblingLost(from));
    let queue = batch.queue(|model| region.fleet.models.get(model)).filter(|_| known.names);
    let (replicas, records) = batch.into_records();
    let here: Vec<_> = replicas.iter().map(|replica| region.fleet.at(replica)).collect();
    let records = records.into_iter().filter_map(|record| localised(record, &here, known));
    let mut records = records.chain(queue.map(SiblingRecord::Queue));
    let inputs = std::iter::from_fn(|| {
        let records: Vec<_> = records.by_ref().take(MOST_AT_ONCE).collect();
        (!records.is_empty()).then_some(Input::Sibling { from, records })
    });
    region.driver.tell_each(restarts.into_iter().chain(inputs));
}

/// A record with this gateway's id of its replica; none if the replica is not here.
fn localised(
    record: SiblingRecord,
    here: &[Option<Arc<Member>>],
    known: Known,
) -> Option<SiblingRecord> {
    Some(match record {
        SiblingRecord::Sent(mut request) => {
            request.replica = number(here.get(request.replica.index())?.as_ref()?)?;
            request.counts &= known.names;
            if !known.prefixes {
                request.blocks.clear();
            }
            SiblingRecord::Sent(request)
        }
        SiblingRecord::Ended { id, ending, cached } => {
            SiblingRecord::Ended { id, ending, cached: cached.filter(|_| known.prefixes) }
        }
        other => other,
    })
}

/// The id of a replica that has not left.
fn number(member: &Member) -> Option<ReplicaId> {
    (!member.gone.is_cancelled()).then_some(member.id)
}
