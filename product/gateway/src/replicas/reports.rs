//! Converts an engine's load report for the machine.

use http::HeaderMap;
use meridian_base::Duration;
use meridian_protocol::signals;
use meridian_routing::{Input, Load};

use crate::http::headers;
use crate::machine::driver::Driver;
use crate::replicas::member::Member;

/// Most requests that an engine may report: more than any engine has, and far from an overflow of
/// sums.
const MOST_REQUESTS: u32 = 1 << 24;

/// The part of an engine's report that the machine uses.
pub(crate) fn load_of(load: &signals::Load, kv_tokens: Option<u64>) -> Load {
    Load {
        pending: load.pending.map(|n| n.min(MOST_REQUESTS)),
        running: load.running.map(|n| n.min(MOST_REQUESTS)),
        kv_used: load.kv_used,
        kv_tokens: load.kv_tokens.or(kv_tokens),
    }
}

/// In addition to the round trip, dispatches younger than this may not have arrived when an engine
/// writes its header.
const ON_THE_WAY: Duration = Duration::from_millis(5);

/// A load report in an answer's header (ORCA): fresher than any probe, and free.
pub(crate) fn piggyback(driver: &Driver, member: &Member, headers: &HeaderMap) {
    let Some(value) = headers.get(headers::ORCA) else { return };
    let Ok(load) = signals::orca(value.as_bytes()) else { return };
    // A report is a sign of life, and an engine that says that it is ill gives none.
    if load.pending.is_some() && member.health.ill().is_none() {
        let asked = driver.clock.now() - (ON_THE_WAY + member.rtt());
        let load = load_of(&load, None);
        // The answer of a replica that left may come when another one has its id.
        let is_there = || !member.gone.is_cancelled();
        driver.tell_if(is_there, Input::Reported { id: member.id, asked, load });
    }
}
