//! Allocation of a server's GPUs to instances.
//!
//! Adjacent GPUs share NUMA nodes and cards. If two GPUs share a card, instances that send much do
//! better with GPUs of different cards, and groups over several servers with cards on one access
//! switch; both orders are tried.

use std::collections::BTreeMap;

use crate::pack::{Class, Packing, Piece};
use crate::topology::{GpuId, Topology};

/// The order of a server's GPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Order {
    /// Adjacent ones first.
    Together,
    /// The first of each card, those on one access switch first, then the second of each.
    Apart,
}

/// The GPUs of a server in an order.
pub(crate) fn places(topology: &Topology, server: u32, order: Order) -> Vec<GpuId> {
    let home = &topology.servers()[server as usize];
    let mut gpus: Vec<GpuId> = (home.first..home.first + home.gpus).map(GpuId).collect();
    if order == Order::Apart {
        let card = |gpu: GpuId| topology.own_card(gpu);
        let key = |gpu: &GpuId| {
            let before = (home.first..gpu.0).filter(|other| card(GpuId(*other)) == card(*gpu));
            let access = card(*gpu).map(|card| home.cards[card as usize].access);
            (before.count(), access, *gpu)
        };
        gpus.sort_by_key(key);
    }
    gpus
}

/// The GPUs of each server that are free, in an order.
pub(crate) struct Free {
    servers: BTreeMap<u32, (Vec<GpuId>, Vec<bool>)>,
}

impl Free {
    pub(crate) fn new(topology: &Topology, classes: &[(Class, Vec<u32>)], order: Order) -> Free {
        let all = classes.iter().flat_map(|(_, of)| of);
        Free::of(all.map(|server| (*server, places(topology, *server, order))))
    }

    /// These GPUs of each server.
    pub(crate) fn of(servers: impl Iterator<Item = (u32, Vec<GpuId>)>) -> Free {
        let all = servers.map(|(server, gpus)| {
            let free = vec![true; gpus.len()];
            (server, (gpus, free))
        });
        Free { servers: all.collect() }
    }

    /// Allocates this many GPUs of each server: the same positions on all if possible, in a block
    /// that starts at a multiple of its length if one is free.
    pub(crate) fn take(&mut self, parts: &[(u32, u8)]) -> Vec<GpuId> {
        let longest =
            parts.iter().map(|(server, _)| self.servers[server].1.len()).max().unwrap_or(0);
        let common: Vec<bool> = (0..longest)
            .map(|at| parts.iter().all(|(server, _)| self.servers[server].1.get(at) == Some(&true)))
            .collect();
        let mut gpus = Vec::new();
        for (server, part) in parts {
            let (all, free) =
                self.servers.get_mut(server).expect("parts are on the cell's servers");
            let part = usize::from(*part);
            let chosen = block(&common, part).or_else(|| block(free, part));
            let chosen = chosen.unwrap_or_else(|| {
                let shared = (0..free.len()).filter(|at| free[*at] && common[*at]);
                let rest = (0..free.len()).filter(|at| free[*at] && !common[*at]);
                shared.chain(rest).take(part).collect()
            });
            let mut taken: Vec<GpuId> = chosen.iter().map(|at| all[*at]).collect();
            taken.sort_unstable();
            gpus.extend(taken);
            chosen.into_iter().for_each(|at| free[at] = false);
        }
        gpus
    }
}

/// The first aligned block of `len` that is all free.
fn block(free: &[bool], len: usize) -> Option<Vec<usize>> {
    (0..free.len())
        .step_by(len.max(1))
        .map(|start| start..start + len)
        .find(|range| range.end <= free.len() && free[range.clone()].iter().all(|one| *one))
        .map(Iterator::collect)
}

/// For each step of a packing, the servers and the number of GPUs it uses on each.
pub(crate) fn servers_of(
    classes: &[(Class, Vec<u32>)],
    packing: &Packing,
    pieces: &[Piece],
) -> Vec<Vec<(u32, u8)>> {
    let mut left: Vec<Vec<(u32, u8)>> = classes
        .iter()
        .map(|(class, of)| of.iter().map(|server| (*server, class.gpus as u8)).collect())
        .collect();
    let mut all = Vec::new();
    for step in &packing.steps {
        let mut parts: Vec<(u32, u8)> = Vec::new();
        for (nth, found) in step.found.iter().enumerate() {
            let shape = &pieces[step.piece].shape[nth];
            for (part, free) in shape.iter().zip(found) {
                let other = |server: u32| parts.iter().all(|(taken, _)| *taken != server);
                let fits = |(server, left): &&mut (u32, u8)| left == free && other(*server);
                let slot = left[nth].iter_mut().find(fits);
                let slot = slot.expect("a packing takes free slots");
                slot.1 -= part;
                parts.push((slot.0, *part));
            }
        }
        all.push(parts);
    }
    all
}
