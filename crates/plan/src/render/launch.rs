//! Launch lines for vLLM and SGLang, one per server, and the ranks.

use std::fmt::Write;

use super::Unit;
use crate::instance::Phase;
use crate::task::Task;

/// The first server of an instance listens here for the others; instances of one server each use a
/// separate port.
const RENDEZVOUS: usize = 29_500;
/// The port of an instance.
const SERVE: usize = 8100;

const UNEVEN: &str =
    "# ranks do not come in equal blocks of servers: start it with Ray in the order of ranks.txt\n";

pub(super) fn vllm(task: &Task<'_>, units: &[Unit<'_>]) -> String {
    lines(units, |at, unit, rank| vllm_line(task, at, unit, rank))
}

/// The command without its devices.
pub(super) fn vllm_line(task: &Task<'_>, at: usize, unit: &Unit<'_>, rank: usize) -> String {
    let one = unit.instance().parallel;
    let mut line = format!("vllm serve {} --port {}", task.subject.name, SERVE + at);
    let (count, head) = (unit.nodes.len(), &unit.nodes[0].server);
    if one.ep {
        let local = unit.nodes[rank].gpus.len();
        let _ = write!(
            line,
            " --data-parallel-size {} --data-parallel-size-local {local} --enable-expert-parallel",
            one.tp
        );
        if count > 1 {
            let start: usize = unit.nodes[..rank].iter().map(|node| node.gpus.len()).sum();
            let port = RENDEZVOUS + at;
            let _ = write!(
                line,
                " --data-parallel-start-rank {start} --data-parallel-address {head} --data-parallel-rpc-port {port}"
            );
        }
    } else {
        let _ =
            write!(line, " --tensor-parallel-size {} --pipeline-parallel-size {}", one.tp, one.pp);
        if count > 1 {
            let port = RENDEZVOUS + at;
            let _ = write!(
                line,
                " --nnodes {count} --node-rank {rank} --master-addr {head} --master-port {port}"
            );
        }
    }
    if rank > 0 {
        line.push_str(" --headless");
    }
    line.push_str(
        r#" --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'"#,
    );
    line
}

pub(super) fn sglang(task: &Task<'_>, units: &[Unit<'_>]) -> String {
    lines(units, |at, unit, rank| {
        let one = unit.instance().parallel;
        let mode = if unit.instance().phase == Phase::Prefill { "prefill" } else { "decode" };
        let mut line = format!(
            "python -m sglang.launch_server --model-path {} --port {} --disaggregation-mode {mode} --tp-size {}",
            task.subject.name,
            SERVE + at,
            one.tp
        );
        if one.ep {
            let _ = write!(line, " --ep-size {0} --dp-size {0} --enable-dp-attention", one.tp);
        } else {
            let _ = write!(line, " --pp-size {}", one.pp);
        }
        if unit.nodes.len() > 1 {
            let (count, head, port) = (unit.nodes.len(), &unit.nodes[0].server, RENDEZVOUS + at);
            let _ =
                write!(line, " --nnodes {count} --node-rank {rank} --dist-init-addr {head}:{port}");
        }
        line
    })
}

fn lines(units: &[Unit<'_>], line: impl Fn(usize, &Unit<'_>, usize) -> String) -> String {
    let mut text = String::from(
        "#!/bin/sh\n# One line a server; run each there, with its part of nccl.env.\n",
    );
    for (at, unit) in units.iter().enumerate() {
        let _ = writeln!(text, "\n# {}", unit.name);
        if !unit.blocks {
            text.push_str(UNEVEN);
            continue;
        }
        for (rank, node) in unit.nodes.iter().enumerate() {
            let devices = Unit::devices(node);
            let command = line(at, unit, rank);
            let _ =
                writeln!(text, "# on {}\nCUDA_VISIBLE_DEVICES={devices} {command}", node.server);
        }
    }
    text
}

pub(super) fn ranks(units: &[Unit<'_>]) -> String {
    let mut text = String::new();
    for unit in units {
        let _ = writeln!(text, "# {}", unit.name);
        let places =
            unit.nodes.iter().flat_map(|node| node.gpus.iter().map(move |gpu| (node, gpu)));
        for (rank, (node, gpu)) in places.enumerate() {
            let _ = writeln!(text, "rank {rank}={} slot={gpu}", node.server);
        }
    }
    text
}
