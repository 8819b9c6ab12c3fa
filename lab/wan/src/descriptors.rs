//! File descriptors: enough for every connection that the configuration allows.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::{Error, Result};

/// Per connection: both sockets and the timer.
const EACH: u64 = 3;
/// Other descriptors: listeners, the admin port, logs, the runtime.
const SPARE: u64 = 192;

/// Raises the soft limit if it is too low, as far as the hard one allows.
///
/// # Errors
/// If even the hard limit is too low; with the number of connections that fit.
pub(super) fn ensure(connections: usize, routes: usize) -> Result<()> {
    let beside = SPARE + routes as u64;
    let need = (connections as u64).saturating_mul(EACH).saturating_add(beside);
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    if limit.current.is_none_or(|n| n >= need) {
        return Ok(());
    }
    let raised = Rlimit { current: Some(need.min(most)), maximum: limit.maximum };
    if need <= most && setrlimit(Resource::Nofile, raised).is_ok() {
        return Ok(());
    }
    let fits = most.saturating_sub(beside) / EACH;
    Err(Error::Setting {
        field: "connections",
        value: connections.to_string(),
        remedy: format!(
            "they need {need} file descriptors and at most {most} may be open; use at most {fits}, \
             or raise the limit (ulimit -n)"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // A number of connections without enough descriptors is an error with the number that fits.
    #[test]
    fn too_many_connections_are_refused() {
        ensure(1, 1).expect("a few always fit");
        let error = ensure(usize::MAX, 1).expect_err("no limit is so high").to_string();
        assert!(error.starts_with(&format!("connections {}: they need ", usize::MAX)), "{error}");
    }
}
