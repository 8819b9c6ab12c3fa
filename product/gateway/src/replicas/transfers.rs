//! An engine's counters of transfers of KV, and the alarms that follow from them.
//!
//! A decode engine that reads KV after its lease gets blocks that may be another prompt's by then,
//! and answers without an error. The prefill engine's counters of expired leases and of reports that
//! came too late are the only signs of it.

use meridian_protocol::signals::Transfers;

use crate::metrics::{KvAlarm, Metrics};
use crate::replicas::member::Member;

/// Notes the newest counters of a replica's engine, and raises an alarm for each kind that grew.
pub(super) fn noted(metrics: &Metrics, member: &Member, new: Transfers) {
    if new.is_empty() {
        return;
    }
    let old = member.transferred(new);
    // Counts of the first report are older than this gateway's knowledge of the replica.
    if old.is_empty() {
        return;
    }
    let kinds = [(KvAlarm::Expired, old.expired, new.expired), (KvAlarm::Late, old.late, new.late)];
    for (kind, old, new) in kinds {
        let more = grown(old, new);
        if more > 0 {
            metrics.kv_alarm(kind, more);
            tracing::warn!(
                replica = %member.name, kind = kind.word(), more,
                "KV was released before it was read: answers may be wrong; raise the lease of the engine (kv_lease_duration), or take load off its decode replicas"
            );
        }
    }
}

/// The growth of a counter. A lower value is that of an engine that started again; a counter appears
/// with its first event.
fn grown(old: Option<u64>, new: Option<u64>) -> u64 {
    let (old, new) = (old.unwrap_or(0), new.unwrap_or(0));
    if new < old { new } else { new - old }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A counter that appears counts whole, one that restarts counts from zero.
    #[test]
    fn growth() {
        assert_eq!(grown(None, Some(3)), 3);
        assert_eq!(grown(Some(3), Some(3)), 0);
        assert_eq!(grown(Some(3), Some(5)), 2);
        assert_eq!(grown(Some(5), Some(1)), 1);
        assert_eq!(grown(Some(5), None), 0);
    }
}
