//! What waits in a gateway's queue, for the other gateways of its region.

use meridian_base::{ModelId, Priority, RequestId, SiblingLine};

use super::bounds::{MOST_LINES, MOST_MODEL, PeerError, amount, at_most, name};
use super::proto;

/// Lines that name their models by places in a list. Those without a name are left out, and so are
/// those after the most that a message has.
pub(super) fn written(
    lines: &[SiblingLine],
    name: impl Fn(ModelId) -> Option<String>,
) -> proto::SiblingQueue {
    let mut queue = proto::SiblingQueue::default();
    let mut known: Vec<ModelId> = Vec::new();
    for line in lines.iter().take(MOST_LINES) {
        let at = known.iter().position(|model| *model == line.model).or_else(|| {
            let name = name(line.model).filter(|name| name.len() <= MOST_MODEL)?;
            known.push(line.model);
            queue.models.push(name);
            Some(known.len() - 1)
        });
        let Some(at) = at else { continue };
        queue.lines.push(proto::SiblingLine {
            model: at as u32,
            tenant: line.tenant,
            class: class(line.priority).into(),
            held: line.held,
            oldest: line.oldest.0,
            waited_ms: if line.waited_ms.is_finite() { line.waited_ms.max(0.0) } else { 0.0 },
        });
    }
    queue
}

/// The lines of models that have an `id` here.
pub(super) fn read(
    queue: &proto::SiblingQueue,
    id: impl Fn(&str) -> Option<ModelId>,
) -> Vec<SiblingLine> {
    let models: Vec<Option<ModelId>> = queue.models.iter().map(|name| id(name)).collect();
    let line = |line: &proto::SiblingLine| {
        Some(SiblingLine {
            priority: priority(line.class()),
            tenant: line.tenant,
            model: (*models.get(line.model as usize)?)?,
            held: line.held,
            oldest: RequestId(line.oldest),
            waited_ms: line.waited_ms,
        })
    };
    queue.lines.iter().filter_map(line).collect()
}

/// Checks what another gateway sent.
pub(super) fn check(queue: &proto::SiblingQueue) -> Result<(), PeerError> {
    at_most("lines", queue.lines.len(), MOST_LINES)?;
    at_most("models", queue.models.len(), MOST_LINES)?;
    queue.models.iter().try_for_each(|model| name("models", model, MOST_MODEL))?;
    queue.lines.iter().try_for_each(|line| amount("waited_ms", line.waited_ms).map(drop))
}

pub(super) fn class(priority: Priority) -> proto::SiblingClass {
    match priority {
        Priority::Low => proto::SiblingClass::Low,
        Priority::Normal => proto::SiblingClass::Normal,
        Priority::High => proto::SiblingClass::High,
    }
}

pub(super) fn priority(class: proto::SiblingClass) -> Priority {
    match class {
        proto::SiblingClass::Low => Priority::Low,
        proto::SiblingClass::Normal => Priority::Normal,
        proto::SiblingClass::High => Priority::High,
    }
}
