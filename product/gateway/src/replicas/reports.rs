//! Converts an engine's load report for the machine.

use std::time::SystemTime;

use http::HeaderMap;
use http::header::RETRY_AFTER;
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

/// When a full engine says that it takes requests again: `retry-after`, in seconds or as a date.
pub(crate) fn pause(driver: &Driver, member: &Member, headers: &HeaderMap) {
    let Some(pause) = headers.get(RETRY_AFTER).and_then(|value| pause_of(value.to_str().ok()?))
    else {
        return;
    };
    let is_there = || !member.gone.is_cancelled();
    driver.tell_if(is_there, Input::Paused { id: member.id, pause });
}

fn pause_of(text: &str) -> Option<Duration> {
    let text = text.trim();
    match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => {
            let date = httpdate::parse_http_date(text).ok()?;
            #[expect(clippy::disallowed_methods, reason = "the header has a date")]
            let now = SystemTime::now();
            date.duration_since(now).ok()
        }
    }
    .filter(|pause| !pause.is_zero())
}

/// In addition to the round trip, dispatches younger than this may not have arrived when an engine
/// writes its header.
const ON_THE_WAY: Duration = Duration::from_millis(5);

/// A load report in an answer's header (ORCA): fresher than any probe, and free.
pub(crate) fn piggyback(driver: &Driver, member: &Member, headers: &HeaderMap) {
    let Some(value) = headers.get(headers::ORCA) else { return };
    let Ok(load) = signals::orca(value.as_bytes()) else { return };
    // A report is a sign of life, and an engine that says that it is ill gives none.
    if load.pending.is_some() && member.life.health.ill().is_none() {
        let asked = driver.clock.now() - (ON_THE_WAY + member.rtt());
        let load = load_of(&load, None);
        // The answer of a replica that left may come when another one has its id.
        let is_there = || !member.gone.is_cancelled();
        driver.tell_if(is_there, Input::Reported { id: member.id, asked, load });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Seconds, or a date in the future; anything else is no pause.
    #[test]
    fn pauses() {
        let seconds = |text| pause_of(text).map(|pause| pause.as_secs_f64());
        assert_eq!(seconds("7"), Some(7.0));
        assert_eq!(seconds(" 0.5 "), Some(0.5));
        #[expect(clippy::disallowed_methods, reason = "the header has a date")]
        let soon = SystemTime::now() + Duration::from_secs(20);
        let until = seconds(&httpdate::fmt_http_date(soon)).expect("is a date");
        assert!(until > 10.0 && until <= 20.0, "{until}");
        let past = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH);
        for none in ["0", "-1", "soon", "", "NaN", "inf", "1e300", &past] {
            assert_eq!(pause_of(none), None, "{none:?}");
        }
    }
}
