//! Sending through the flow gate: each chunk of a prompt's KV waits for its permit, so that on a busy
//! card the request that is due first goes first.
//!
//! The card is emulated, and a timer wakes late by up to a tick. A chunk is therefore some
//! milliseconds of the card's time, and a transfer takes its next permits while a chunk passes.

use super::Shared;
use super::blocks::write;
use super::exports::Read;
use super::link::Passing;
use super::network::Stream;
use super::outgate::Outgate;
use std::collections::VecDeque;
use std::io::Result;

/// Chunks on the card at a time if the gate refuses the transfer: as many as its window holds.
const UNGATED: usize = 2;

/// Sends blocks of the named request in chunks, each with a permit and at the card's rate.
pub(super) async fn send(
    gate: &Outgate,
    stream: &mut dyn Stream,
    (name, read): (&str, &Read),
    shared: &Shared,
) -> Result<()> {
    if read.contents.is_empty() {
        return Ok(());
    }
    let bytes = |blocks: usize| (shared.model_bytes * blocks as f64) as u64;
    let mut handoff = gate.begin(name, bytes(read.contents.len()), read.due);
    let mut chunks = read.contents.chunks(gate.blocks);
    let mut passing: VecDeque<(&[u64], Passing<'_>)> = VecDeque::with_capacity(UNGATED);
    loop {
        while let Some(&chunk) = chunks.clone().next().as_ref() {
            let size = u32::try_from(bytes(chunk.len())).unwrap_or(u32::MAX);
            match &handoff {
                Some(handoff) if passing.is_empty() => drop(handoff.permit(size).await),
                Some(handoff) if handoff.try_permit(size).is_none() => break,
                None if passing.len() == UNGATED => break,
                Some(_) | None => {}
            }
            chunks.next();
            passing.push_back((chunk, shared.out.begin(bytes(chunk.len()) as f64, None)));
        }
        let Some((chunk, pass)) = passing.pop_front() else { return Ok(()) };
        pass.over().await;
        drop(pass);
        write(stream, chunk, shared).await?;
        if let Some(handoff) = &mut handoff {
            handoff.completed(bytes(chunk.len()));
        }
    }
}
