//! Grouping: which of an instance's GPUs make a stage.
//!
//! GPUs are put in the order unit, server, NUMA node and cut into stages, which keeps a stage inside
//! a server wherever that is possible at all; then members of two stages are swapped as long as the
//! sum of all stages gets better, and the search ends after `PATIENCE` swaps in a row that did not
//! help. The paper's Algorithm 2 ends at the first, and looks at one of the two groups.

use meridian_base::Rng;

use crate::instance::{Instance, Parallel, Phase, Rated};
use crate::task::Task;
use crate::topology::{GpuId, Topology};

/// Swaps in a row that may fail.
const PATIENCE: u32 = 24;

/// The best instance that is found on these GPUs; `None` where it can't run.
pub(crate) fn arranged(
    task: &Task<'_>,
    phase: Phase,
    parallel: Parallel,
    gpus: &[GpuId],
) -> Option<Rated> {
    let mut order = gpus.to_vec();
    order.sort_by_key(|gpu| place(task.topology, gpus, *gpu));
    let rated = |order: &[GpuId]| {
        let stages = order.chunks(parallel.tp as usize).map(<[GpuId]>::to_vec).collect();
        Rated::new(task, Instance { phase, parallel, stages }).ok()
    };
    let mut best = rated(&order)?;
    let servers = |gpu: &GpuId| task.topology.server_of(*gpu);
    let first = servers(&order[0]);
    if parallel.pp == 1 || order.iter().all(|gpu| servers(gpu) == first) {
        return Some(best);
    }
    let mut rng = Rng::new(u64::from(order[0].0));
    let mut failed = 0;
    while failed < PATIENCE {
        let (a, b) = (rng.below(order.len()), rng.below(order.len()));
        let apart = a / parallel.tp as usize != b / parallel.tp as usize;
        if !apart || servers(&order[a]) == servers(&order[b]) {
            failed += 1;
            continue;
        }
        order.swap(a, b);
        match rated(&order).filter(|other| better(other, &best)) {
            Some(other) => (best, failed) = (other, 0),
            None => {
                order.swap(a, b);
                failed += 1;
            }
        }
    }
    Some(best)
}

fn better(a: &Rated, b: &Rated) -> bool {
    (a.rate, -a.service) > (b.rate, -b.service)
}

/// Fuller servers first, so that stages fit in them; equal kinds next to each other.
fn place(topology: &Topology, gpus: &[GpuId], gpu: GpuId) -> (&'static str, usize, u32, u8, u32) {
    let server = topology.server_of(gpu);
    let home = topology.home(gpu);
    let here = gpus.iter().filter(|other| topology.server_of(**other) == server).count();
    (home.kind.name, usize::MAX - here, server, home.numa[(gpu.0 - home.first) as usize], gpu.0)
}
