//! Kubernetes: a service for each instance, and for each of its servers a deployment bound to it by
//! host name.
//!
//! Kubernetes allocates GPUs by number and not by position, so if several instances share a server
//! its device plugin assigns the GPUs.

use std::fmt::Write;

use super::{Unit, launch};
use crate::task::Task;

pub(super) fn manifests(task: &Task<'_>, units: &[Unit<'_>]) -> String {
    let mut text = String::new();
    for (at, unit) in units.iter().enumerate().filter(|(_, unit)| unit.blocks) {
        let Unit { name, nodes, .. } = unit;
        let _ = write!(
            text,
            "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\nspec:\n  clusterIP: None\n  \
             selector: {{instance: {name}}}\n  ports:\n  - {{name: http, port: {}}}\n",
            8100 + at
        );
        for (rank, node) in nodes.iter().enumerate() {
            let command = launch::vllm_line(task, at, unit, rank).replace('\'', "''");
            let (server, gpus) = (&node.server, node.gpus.len());
            let phase = unit.instance().phase.name();
            let _ = write!(
                text,
                "---\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}-{rank}\nspec:\n  \
                 replicas: 1\n  selector:\n    matchLabels: {{instance: {name}, rank: \"{rank}\"}}\n  \
                 template:\n    metadata:\n      labels: {{instance: {name}, rank: \"{rank}\", phase: {phase}}}\n    \
                 spec:\n      hostNetwork: true\n      nodeSelector: {{kubernetes.io/hostname: {server}}}\n      \
                 containers:\n      - name: engine\n        image: vllm/vllm-openai\n        \
                 command: [sh, -c]\n        args:\n        - 'exec {command}'\n        resources:\n          \
                 limits: {{nvidia.com/gpu: \"{gpus}\"}}\n"
            );
        }
    }
    text
}
