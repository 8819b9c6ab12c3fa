//! File descriptors: as many as the system allows, for hundreds of connections and more.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit on open files of this process, which programs started later inherit, to the
/// hard limit. Returns the number of files that each may open.
pub(super) fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let allowed = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    allowed.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The soft limit is afterwards as high as the hard one.
    #[test]
    fn the_soft_limit_is_raised() {
        let allowed = raise();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        assert_eq!(limit.current.unwrap_or(u64::MAX), allowed);
    }
}
