//! What an order does to a process: it gets a signal, ends, or starts again.

use std::time::Duration;

use super::order::Act;
use super::{DRAIN, SETTLE};
use crate::{Error, Process, Result};

/// Performs an act that is a signal only; false if the process has to end or another one has to
/// start.
pub(super) fn signalled(process: Option<&mut Process>, act: Act) -> bool {
    match (act, process) {
        (Act::Stop, Some(process)) => process.stop(),
        (Act::Slow, Some(process)) => process.slow(),
        (Act::End, Some(process)) => process.terminate(),
        (Act::Reload, Some(process)) => process.hang_up(),
        (Act::Revive, Some(process)) => {
            process.go_on();
            return !process.is_ending();
        }
        (Act::Stop | Act::Slow | Act::End | Act::Reload, None) => {}
        _ => return false,
    }
    true
}

/// Ends a program, and waits until it has ended properly. A suspended one is resumed for that.
pub(super) async fn end(process: &mut Process) -> Result<()> {
    if !process.is_ending() {
        process.terminate();
    }
    if process.is_stopped() {
        process.go_on();
    }
    let status = process.wait(DRAIN).await?;
    if status.success() {
        return Ok(());
    }
    let (name, log) = (process.name().to_owned(), process.log_tail());
    let what = format!("shutting down {name}");
    Err(Error::Tool { what, status, remedy: "its log has the cause".into(), log })
}

/// Starts a program at its previous address. Another program's connection may have the port for a
/// moment, since the kernel assigns both from one range.
pub(super) async fn again<T, F: Future<Output = Result<T>>>(
    mut start: impl FnMut() -> F,
) -> Result<T> {
    let give_up = tokio::time::Instant::now() + SETTLE;
    loop {
        match start().await {
            Err(Error::EndedEarly { .. }) if tokio::time::Instant::now() < give_up => {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            other => return other,
        }
    }
}

pub(super) fn unknown<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
    let known: Vec<&str> = known.into_iter().collect();
    let remedy = format!("is not there; use one of {}", known.join(", "));
    Error::Setting { field: "name", value: name.to_owned(), remedy }
}
