//! The open gates, by number. The caller's pointer is that number, which is never dereferenced.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{LazyLock, PoisonError, RwLock};

use meridian_gate::Gate;

use crate::codes::{Failure, MERIDIAN_FAILED, MERIDIAN_UNKNOWN_GATE};

#[derive(Default)]
struct Gates {
    open: HashMap<usize, Gate>,
    opened: usize,
}

static GATES: LazyLock<RwLock<Gates>> = LazyLock::new(RwLock::default);

/// Adds a gate and returns its number, which is above 0.
pub(crate) fn add(gate: Gate) -> usize {
    let mut gates = GATES.write().unwrap_or_else(PoisonError::into_inner);
    gates.opened += 1;
    let number = gates.opened;
    let before = gates.open.insert(number, gate);
    assert!(before.is_none(), "a gate has a number of its own");
    number
}

/// Removes a gate. Threads that wait there get their permits or errors as before.
pub(crate) fn remove(number: usize) {
    let gate = GATES.write().unwrap_or_else(PoisonError::into_inner).open.remove(&number);
    drop(gate);
}

fn find(number: usize) -> Result<Gate, Failure> {
    let gates = GATES.read().unwrap_or_else(PoisonError::into_inner);
    let gate = gates.open.get(&number).cloned();
    let message = "the gate was closed, or never opened".to_owned();
    gate.ok_or(Failure { code: MERIDIAN_UNKNOWN_GATE, message })
}

/// Runs a call, whose panic is a failure.
pub(crate) fn guard<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    // The gate's own lock is poisoned by a panic, so no later call sees a state in the middle.
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        let message = "the gate has failed; send without a permit".to_owned();
        Err(Failure { code: MERIDIAN_FAILED, message })
    })
}

/// Runs a call at a gate.
pub(crate) fn at<T>(
    number: usize,
    call: impl FnOnce(&Gate) -> Result<T, Failure>,
) -> Result<T, Failure> {
    guard(|| call(&find(number)?))
}
