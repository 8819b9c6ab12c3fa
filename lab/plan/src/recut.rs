//! Recutting: an instance's GPUs, or those of a server that are free, cut into other instances.
//!
//! Packings are tried by their rates with free links. If a link limits a plan, a packing with lower
//! rates may be better: a second decode instance that its rate does not require takes KV off the
//! link to the first, and single GPUs send a prompt's KV from one card each, whereas a group sends
//! it in parts.

use std::collections::BTreeMap;

use crate::instance::{Parallel, Phase};
use crate::splits::parallels;
use crate::task::Task;
use crate::topology::GpuId;

/// An instance before it is arranged.
pub(crate) type Seat = (Phase, Parallel, Vec<GpuId>);

/// Seats, and the free GPUs.
pub(crate) type Seating = (Vec<Seat>, Vec<GpuId>);

/// Every seating in which the GPUs of one instance, or the free ones of one server, are recut into
/// equal instances of another kind; the rest of them stays free.
pub(crate) fn recuts(task: &Task<'_>, (seats, free): &Seating) -> Vec<Seating> {
    let mut all = Vec::new();
    for (at, seat) in seats.iter().enumerate() {
        let mut others = seats.clone();
        others.remove(at);
        cuts(task, &seat.2, &(others, free.clone()), &mut all);
    }
    for (server, gpus) in by_server(task, free) {
        let elsewhere = |gpu: &&GpuId| task.topology.server_of(**gpu) != server;
        let rest = free.iter().filter(elsewhere).copied().collect();
        cuts(task, &gpus, &(seats.clone(), rest), &mut all);
    }
    all
}

fn by_server(task: &Task<'_>, gpus: &[GpuId]) -> BTreeMap<u32, Vec<GpuId>> {
    let mut servers: BTreeMap<u32, Vec<GpuId>> = BTreeMap::new();
    for gpu in gpus {
        servers.entry(task.topology.server_of(*gpu)).or_default().push(*gpu);
    }
    servers
}

/// Every number of equal instances on the first of these GPUs, given the other seats.
fn cuts(task: &Task<'_>, gpus: &[GpuId], (seats, free): &Seating, all: &mut Vec<Seating>) {
    let mut gpus = gpus.to_vec();
    gpus.sort_unstable();
    for phase in [Phase::Prefill, Phase::Decode] {
        for parallel in parallels(task, gpus.len() as u32) {
            let each = parallel.gpus() as usize;
            for count in 1..=gpus.len() / each {
                let (taken, left) = gpus.split_at(count * each);
                let cut = taken.chunks(each).map(|part| (phase, parallel, part.to_vec()));
                let seats = seats.iter().cloned().chain(cut).collect();
                all.push((seats, free.iter().chain(left).copied().collect()));
            }
        }
    }
}
