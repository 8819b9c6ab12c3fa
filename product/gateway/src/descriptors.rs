//! File descriptors: enough for all connections that the configuration allows.
//!
//! A shell usually sets a low soft limit, which a process may raise itself, and a hard limit, which
//! only root may raise. So every server raises the soft limit first, and the hard limit decides.

use meridian_config::Gateway as Config;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::Error;

/// Most connections, including unidentified ones.
pub(crate) const PEER_CONNECTIONS: u16 = 512;

/// Descriptors for other purposes than connections: listeners, probes, logs, the runtime.
const SPARE: u64 = 64;

/// Raises the soft limit on open files to the hard limit. Returns the number of files that the
/// process may open from now on.
pub fn raise_descriptors() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let allowed = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    allowed.unwrap_or(u64::MAX)
}

/// Raises the soft limit and ensures that there are descriptors for every allowed connection.
pub(crate) fn check_descriptors(config: &Config) -> Result<(), Error> {
    let peers = config.peers.as_ref().map_or(0, |_| u64::from(PEER_CONNECTIONS));
    let limits = &config.limits;
    judge(raise_descriptors(), limits.connections as u64, u64::from(limits.replicas), peers)
}

/// One descriptor for each client and one for its replica, one for the probes of each replica, one
/// for each peer's connection.
fn judge(allowed: u64, connections: u64, replicas: u64, peers: u64) -> Result<(), Error> {
    let beside = SPARE + peers;
    let need = connections.saturating_mul(2).saturating_add(replicas + beside);
    if allowed >= need {
        return Ok(());
    }
    let room = allowed.saturating_sub(beside);
    let fewer = replicas.min(room / 4).max(1);
    let fits = match connections.min(room.saturating_sub(fewer) / 2) {
        0 => String::new(),
        most => {
            format!(", or allow fewer: `limits: {{connections: {most}, replicas: {fewer}}}` fits")
        }
    };
    Err(Error::Descriptors { connections, replicas, need, allowed, fits })
}

#[cfg(test)]
mod tests {
    use super::*;

    // The limits that a refusal proposes pass, for any number of allowed files, with peers and
    // without; where no limits pass, it proposes none.
    #[test]
    fn proposed_limits_pass() {
        for peers in [0, u64::from(PEER_CONNECTIONS)] {
            for allowed in 0..5000 {
                let Err(refusal) = judge(allowed, 8192, 1024, peers) else { panic!("too few") };
                let said = refusal.to_string();
                let Some((_, limits)) = said.split_once("connections: ") else {
                    assert!(judge(allowed, 1, 1, peers).is_err(), "{allowed}: {said}");
                    continue;
                };
                let number = |text: &str| {
                    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
                    digits.parse::<u64>().unwrap_or(0)
                };
                let replicas = limits.split_once("replicas: ").map_or(0, |(_, text)| number(text));
                let connections = number(limits);
                assert!(connections > 0 && replicas > 0, "{said}");
                assert!(judge(allowed, connections, replicas, peers).is_ok(), "{allowed}: {said}");
            }
        }
        assert!(judge(17472, 8192, 1024, 0).is_ok() && judge(17471, 8192, 1024, 0).is_err());
    }
}
