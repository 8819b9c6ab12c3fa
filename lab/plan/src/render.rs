//! Renders the files that deploy a plan: start scripts, ranks, NCCL's settings, Kubernetes, the
//! gateway's file, and a picture.

mod engine;
mod gateway;
mod images;
mod kubernetes;
mod launch;
mod names;
mod nccl;
mod picture;
mod ports;
mod served;

use crate::names::names;
use crate::search::Plan;
use crate::task::Task;
use crate::topology::GpuId;
use crate::{Instance, Rated};
use ports::{Ports, Slots};
use served::Served;

pub use gateway::{GATEWAY, GatewaySettings};
pub use names::model_id;
pub(crate) use served::context;

/// The files of a plan, by name. `id` is where engines find the weights, as [`model_id`] tells.
#[must_use]
pub fn rendered(task: &Task<'_>, plan: &Plan, id: &str) -> Vec<(&'static str, String)> {
    let all = units(task, plan.instances().map(AsRef::as_ref));
    files(task, &all, &Served::new(task, id))
}

fn files(task: &Task<'_>, all: &[Unit<'_>], served: &Served) -> Vec<(&'static str, String)> {
    vec![
        ("vllm.sh", launch::vllm(served, all)),
        ("sglang.sh", launch::sglang(served, all)),
        ("gateway.yaml", gateway::file(all)),
        ("ranks.txt", launch::ranks(all)),
        ("nccl.env", nccl::environment(all)),
        ("tuner.csv", nccl::tuner(task, all)),
        ("kubernetes.yaml", kubernetes::manifests(served, all)),
        ("placement.svg", picture::placement(task, all)),
    ]
}

/// A value as a YAML document.
fn yaml(value: &serde_json::Value) -> String {
    serde_saphyr::to_string(value).expect("JSON can be written as YAML")
}

/// An instance with its name.
struct Unit<'a> {
    /// `prefill-0` and on.
    name: String,
    rated: &'a Rated,
    ports: Ports,
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

    /// The first server, which answers requests.
    fn head(&self) -> &str {
        &self.nodes[0].server
    }

    fn devices(node: &Node) -> String {
        node.gpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
    }
}

fn units<'a>(task: &Task<'_>, instances: impl Iterator<Item = &'a Rated>) -> Vec<Unit<'a>> {
    let mut slots = Slots::new(task.topology);
    let instances: Vec<&Rated> = instances.collect();
    let names = names(instances.iter().map(|rated| &rated.instance));
    instances
        .into_iter()
        .zip(names)
        .map(|(rated, name)| {
            let nodes = nodes(task, &rated.instance);
            let distinct: std::collections::BTreeSet<&String> =
                nodes.iter().map(|node| &node.server).collect();
            let same = nodes.iter().all(|node| node.gpus.len() == nodes[0].gpus.len());
            let blocks = distinct.len() == nodes.len() && same;
            let ports = slots.take(rated.instance.gpus());
            Unit { name, rated, ports, nodes, blocks }
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
