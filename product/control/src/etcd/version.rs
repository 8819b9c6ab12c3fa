//! Versions of etcd with a defect that a control plane can meet.

/// The first releases of 3.4 and 3.5 without them.
const MENDED: [[u32; 3]; 2] = [[3, 4, 31], [3, 5, 13]];

/// What a member of this version may do wrong, and the remedy.
pub(super) fn doubt(version: &str) -> Option<&'static str> {
    let numbers: Vec<u32> = version.split('.').map_while(|part| part.parse().ok()).collect();
    let &[major, minor, _] = numbers.as_slice() else { return None };
    let mended = MENDED.iter().find(|one| one[..2] == [major, minor]);
    let is_old = match mended {
        Some(mended) => numbers.as_slice() < mended.as_slice(),
        None => [major, minor] < [3, 4],
    };
    // etcd-io/etcd#15247, #17612.
    is_old.then_some(
        "a leader that was stopped may end leases that the next leader has renewed, so a name may have \
         two owners for up to one lease, and a watch may miss changes at a compaction; update etcd to \
         3.4.31, 3.5.13 or later",
    )
}

#[cfg(test)]
mod tests {
    use super::doubt;

    #[test]
    fn old_versions_are_in_doubt() {
        for old in ["3.3.27", "3.4.0", "3.4.23", "3.4.30", "3.5.0", "3.5.12", "2.3.8"] {
            assert!(doubt(old).is_some(), "{old}");
        }
        // One that can't be read is of a build of its own.
        for good in ["3.4.31", "3.4.37", "3.5.13", "3.5.21", "3.6.0", "4.0.0", "main", "", "3.5"] {
            assert!(doubt(good).is_none(), "{good}");
        }
    }
}
