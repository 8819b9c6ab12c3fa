//! Begins the intervals in which a replica is up, or down after it drained. Its other intervals begin with the machine's outputs
//! (`machine/driver.rs`), and as it joins, drains and leaves.

use meridian_routing::State;

use crate::machine::driver::Driver;
use crate::replicas::member::{ANSWERED, Member};
use crate::replicas::standing;

/// Begins an interval of a replica that has come up, or whose models are known now.
pub(super) fn note_up(driver: &Driver, member: &Member) {
    if member.is_noted_up() {
        return;
    }
    let now = driver.clock.now();
    // The machine's lock is held, so nothing changes the state in between.
    let inner = driver.lock();
    let Some(status) = inner.routing.replicas().status(member.id, now) else { return };
    match status.state {
        State::Up => {
            let is_found = !member.found.read().models.is_empty();
            member.enters(standing::word(status.state, is_found), ANSWERED);
        }
        // The machine reports this once, and that may have been while it drained.
        State::Down => member.goes_down(),
        _ => {}
    }
}
