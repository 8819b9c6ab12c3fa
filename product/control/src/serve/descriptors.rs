//! File descriptors: as many connections as this process may have files open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Most connections; a follower has one for its watch and occasionally one more.
const MOST: u64 = 8192;
/// Files for other purposes: the store, listeners, etcd's members, certificates that are read.
const SPARE: u64 = 64;
/// Files of the name server: its connections over TCP.
const DNS: u64 = 256;
/// Fewest connections: with less a control plane can't serve a fleet.
const LEAST: u64 = 16;

/// Raises the soft limit on open files to the hard limit, and returns it.
pub(super) fn raised() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let allowed = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    allowed.unwrap_or(u64::MAX)
}

/// Most connections of a process that may open so many files.
pub(super) fn connections(allowed: u64, has_dns: bool) -> usize {
    let dns = if has_dns { DNS.min(allowed / 4) } else { 0 };
    let room = allowed.saturating_sub(SPARE + dns).clamp(LEAST, MOST);
    usize::try_from(room).expect("at most 8192")
}

#[cfg(test)]
mod tests {
    use super::*;

    // Defect control-places: the control plane accepts as many connections as it may open files,
    // and leaves some for its store, its listeners and its name server.
    #[test]
    fn as_many_as_there_are_files() {
        for (allowed, has_dns, most) in [
            (u64::MAX, false, 8192),
            (8256, false, 8192),
            (1024, false, 960),
            (1024, true, 704),
            (65_536, true, 8192),
            (20, false, 16),
        ] {
            assert_eq!(connections(allowed, has_dns), most, "{allowed} {has_dns}");
        }
    }
}
