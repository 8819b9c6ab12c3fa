//! Changes in batches that Route 53 accepts. A batch is made as a whole or not at all.
//!
//! <https://docs.aws.amazon.com/Route53/latest/DeveloperGuide/DNSLimitations.html>

use super::{Body, Change};

/// Most records in a batch; an upsert counts twice.
pub(super) const MOST_RECORDS: usize = 1000;
/// Most characters of all values; those of an upsert count twice.
pub(super) const MOST_CHARACTERS: usize = 32_000;

/// What a change counts: records, and characters.
pub(super) fn cost(change: &Change) -> (usize, usize) {
    let characters = match change {
        Change::Upsert(_, Body::Region { target, .. }) => target.len(),
        Change::Upsert(_, Body::Gateway { address, .. }) => address.to_string().len(),
        // Whatever it is, it is in the zone, and its identifier is about as long.
        Change::Upsert(key, Body::Other) | Change::Delete(key) => key.id.len() + key.name.len(),
    };
    let times = if matches!(change, Change::Upsert(..)) { 2 } else { 1 };
    (times, times * characters)
}

/// Splits changes into batches, in their order.
pub(super) fn split(changes: Vec<Change>) -> Vec<Vec<Change>> {
    let count = changes.len();
    let mut batches: Vec<Vec<Change>> = Vec::new();
    let (mut records, mut characters) = (0, 0);
    for change in changes {
        let (more, longer) = cost(&change);
        let fits = records + more <= MOST_RECORDS && characters + longer <= MOST_CHARACTERS;
        match batches.last_mut().filter(|_| fits) {
            Some(batch) => {
                batch.push(change);
                (records, characters) = (records + more, characters + longer);
            }
            None => {
                batches.push(vec![change]);
                (records, characters) = (more, longer);
            }
        }
    }
    let split: usize = batches.iter().map(Vec::len).sum();
    assert_eq!(split, count, "each change is in one batch");
    batches
}
