//! Renders the files that deploy a plan: launch lines, ranks, NCCL's settings, Kubernetes, and a
//! picture.

mod kubernetes;
mod launch;
mod nccl;
mod picture;

use crate::instance::Phase;
use crate::search::Plan;
use crate::task::Task;
use crate::topology::GpuId;
use crate::{Instance, Rated};

/// The files of a plan, by name.
#[must_use]
pub fn rendered(task: &Task<'_>, plan: &Plan) -> Vec<(&'static str, String)> {
    let all = units(task, plan);
    vec![
        ("vllm.sh", launch::vllm(task, &all)),
        ("sglang.sh", launch::sglang(task, &all)),
        ("ranks.txt", launch::ranks(&all)),
        ("nccl.env", nccl::environment(&all)),
        ("tuner.csv", nccl::tuner(&all)),
        ("kubernetes.yaml", kubernetes::manifests(task, &all)),
        ("placement.svg", picture::placement(task, &all)),
    ]
}

/// An instance with its name.
struct Unit<'a> {
    /// `prefill-0` and on.
    name: String,
    rated: &'a Rated,
    /// Servers in the order of ranks, each with its GPUs by number.
    nodes: Vec<Node>,
    /// Whether ranks are in one block per server, all of one size, as launchers require.
    blocks: bool,
}

/// A server's part of an instance.
struct Node {
    server: String,
    gpus: Vec<u32>,
}

impl Unit<'_> {
    fn instance(&self) -> &Instance {
        &self.rated.instance
    }

    fn devices(node: &Node) -> String {
        node.gpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
    }
}

fn units<'a>(task: &Task<'_>, plan: &'a Plan) -> Vec<Unit<'a>> {
    let mut counts = [0, 0];
    plan.instances()
        .map(|rated| {
            let count = &mut counts[usize::from(rated.instance.phase == Phase::Decode)];
            let name = format!("{}-{count}", rated.instance.phase.name());
            *count += 1;
            let nodes = nodes(task, &rated.instance);
            let distinct: std::collections::BTreeSet<&String> =
                nodes.iter().map(|node| &node.server).collect();
            let same = nodes.iter().all(|node| node.gpus.len() == nodes[0].gpus.len());
            let blocks = distinct.len() == nodes.len() && same;
            Unit { name, rated, nodes, blocks }
        })
        .collect()
}

/// Runs of ranks on one server.
fn nodes(task: &Task<'_>, instance: &Instance) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    for gpu in instance.gpus() {
        let home = task.topology.home(gpu);
        let GpuId(id) = gpu;
        match nodes.last_mut().filter(|node| node.server == home.name) {
            Some(node) => node.gpus.push(id - home.first),
            None => nodes.push(Node { server: home.name.clone(), gpus: vec![id - home.first] }),
        }
    }
    nodes
}

#[cfg(test)]
mod tests;
