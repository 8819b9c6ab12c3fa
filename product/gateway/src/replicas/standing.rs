//! A replica's state in the terms of the admin API and the registry.

use meridian_routing::State;

/// A replica that answers probes but has not reported its models takes no requests yet.
pub(crate) fn word(state: State, is_found: bool) -> &'static str {
    match state {
        State::Unproven => "unproven",
        State::Up if !is_found => "unproven",
        State::Up => "up",
        State::Down => "down",
        State::Draining => "draining",
    }
}
