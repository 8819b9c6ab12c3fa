//! The names of a plan's instances.

use crate::instance::{Instance, Phase};

/// The names of a plan's instances, cell by cell: `prefill-0` and on, `decode-0` and on.
#[must_use]
pub fn names<'a>(instances: impl Iterator<Item = &'a Instance>) -> Vec<String> {
    let mut counts = [0_u32; 2];
    let name = |one: &Instance| {
        let count = &mut counts[usize::from(one.phase == Phase::Decode)];
        *count += 1;
        format!("{}-{}", one.phase.name(), *count - 1)
    };
    instances.map(name).collect()
}
