//! Ports of an instance. Instances that share a server differ in their slot, so that they share no
//! port.

use crate::topology::{GpuId, Topology};

/// HTTP.
const SERVE: usize = 8100;
/// SGLang's bootstrap server of a prefill instance.
const BOOTSTRAP: usize = 8998;
/// NIXL's side channel. vLLM adds a rank's data-parallel index to the port; the ranks of a
/// tensor-parallel group and of a pipeline share one
/// (`kv_connector/v1/nixl/base_scheduler.py` of vLLM 0.32.0).
const SIDE: usize = 20_000;
/// Ports of a side channel: more than an instance has ranks.
const RANKS: usize = 128;
/// The first server of an instance listens here for the others.
const RENDEZVOUS: usize = 29_500;

/// The ports of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ports {
    pub(super) serve: usize,
    pub(super) bootstrap: usize,
    pub(super) side: usize,
    pub(super) rendezvous: usize,
}

impl Ports {
    const fn of(slot: usize) -> Ports {
        Ports {
            serve: SERVE + slot,
            bootstrap: BOOTSTRAP + slot,
            side: SIDE + slot * RANKS,
            rendezvous: RENDEZVOUS + slot,
        }
    }
}

/// Gives each instance the lowest slot that is free on all its servers.
pub(super) struct Slots<'a> {
    topology: &'a Topology,
    /// The slots in use on each server.
    used: Vec<Vec<usize>>,
}

impl<'a> Slots<'a> {
    pub(super) fn new(topology: &'a Topology) -> Slots<'a> {
        Slots { topology, used: vec![Vec::new(); topology.servers().len()] }
    }

    pub(super) fn take(&mut self, gpus: impl Iterator<Item = GpuId>) -> Ports {
        let mut servers: Vec<usize> =
            gpus.map(|gpu| self.topology.server_of(gpu) as usize).collect();
        servers.sort_unstable();
        servers.dedup();
        let free = |slot: &usize| servers.iter().all(|one| !self.used[*one].contains(slot));
        let slot = (0..).find(free).expect("finitely many are in use");
        for server in servers {
            self.used[server].push(slot);
        }
        Ports::of(slot)
    }
}
