//! Grouping: divides an instance's GPUs into stages.
//!
//! GPUs are sorted by unit, server and NUMA node and cut into stages, which keeps a stage inside a
//! server whenever possible. Then members of two stages are swapped as long as the sum of all
//! stages improves; the search ends after `PATIENCE` consecutive swaps without improvement. The
//! paper's Algorithm 2 ends at the first, and considers only one of the two groups.

use meridian_base::Rng;

use crate::instance::{Instance, Parallel, Phase, Rated};
use crate::task::Task;
use crate::topology::{GpuId, Topology};

/// Consecutive swaps that may fail.
const PATIENCE: u32 = 24;

/// The best instance found on these GPUs; `None` if it can't run.
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
    // The last stage does more work than the others, and the first may have one layer more.
    let mut turned = order.clone();
    turned.chunks_mut(parallel.tp as usize).for_each(<[GpuId]>::reverse);
    turned.reverse();
    if let Some(other) = rated(&turned).filter(|other| better(other, &best)) {
        (best, order) = (other, turned);
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

/// Fuller servers first, so that stages fit into them; equal kinds next to each other.
fn place(topology: &Topology, gpus: &[GpuId], gpu: GpuId) -> (&'static str, usize, u32, u8, u32) {
    let server = topology.server_of(gpu);
    let home = topology.home(gpu);
    let here = gpus.iter().filter(|other| topology.server_of(**other) == server).count();
    (home.kind.name, usize::MAX - here, server, home.numa[(gpu.0 - home.first) as usize], gpu.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::TopologySpec;
    use crate::model::Subject;
    use crate::task::{Lengths, Slo};

    // Correction 14: groups are formed by location, not by coordinates, and swapping continues
    // after a swap that did not help. Stages stay inside servers although the GPUs are given in
    // mixed order.
    #[test]
    fn correction_14_stages_stay_inside_servers() {
        let yaml = "version: 1\nunits:\n- servers:\n  - {count: 3, gpu: a100, gpus: 4, nvlink: \
                    300GB/s, cards: 1, card_rate: 25Gb/s}\n";
        let topology = TopologySpec::read(yaml).unwrap().build().unwrap();
        let subject = Subject::named("opt-66b").unwrap();
        let lengths = Lengths::equal(500.0);
        let slo = Slo { ttft: 10.0, tpot: 0.2, attainment: 0.9 };
        let task = Task::new(&topology, &subject, (lengths, lengths), slo);
        let mut rng = Rng::new(14);
        for _ in 0..20 {
            // Two of each server and two more of the first and the last.
            let mut gpus: Vec<GpuId> = [0, 1, 2, 3, 4, 5, 8, 9].map(GpuId).to_vec();
            for at in (1..gpus.len()).rev() {
                gpus.swap(at, rng.below(at + 1));
            }
            let parallel = Parallel { tp: 2, pp: 4, ep: false };
            let rated = arranged(&task, Phase::Prefill, parallel, &gpus).unwrap();
            for stage in &rated.instance.stages {
                assert_eq!(topology.server_of(stage[0]), topology.server_of(stage[1]));
            }
        }
    }
}
