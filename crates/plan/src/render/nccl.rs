//! NCCL: the environment of each instance, and the table for a tuner plugin.
//!
//! The table has the format that the example plugin in NCCL's source reads
//! (`NCCL_TUNER_CONFIG_FILE`): collective, least and most bytes, algorithm, protocol, channels,
//! nodes, ranks, and two fields that match anything. NCCL chooses when an operation is enqueued or
//! captured into a graph, not when the graph is replayed.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::Unit;
use crate::collective::Algorithm;
use crate::table::PolicyTable;

pub(super) fn environment(units: &[Unit<'_>]) -> String {
    let mut text = String::new();
    for unit in units {
        let mut ways = BTreeSet::new();
        let table = PolicyTable::of(core::iter::once(unit.rated));
        for group in &table.groups {
            ways.extend(group.rows.iter().map(|(_, algorithm)| *algorithm));
        }
        let _ = writeln!(text, "# {}", unit.name);
        if ways.is_empty() {
            text.push_str("# no collective\n");
            continue;
        }
        text.push_str("NCCL_TUNER_CONFIG_FILE=tuner.csv\n");
        let switch = u8::from(ways.contains(&Algorithm::InNetwork));
        let _ = writeln!(text, "NCCL_COLLNET_ENABLE={switch}");
        if ways.contains(&Algorithm::Relayed) {
            text.push_str("NCCL_CROSS_NIC=0\nNCCL_PXN_DISABLE=0\n");
        }
    }
    text
}

pub(super) fn tuner(units: &[Unit<'_>]) -> String {
    let mut text = String::from(
        "# collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks,pipe_ops,reg_buff\n",
    );
    let mut seen = BTreeSet::new();
    for unit in units {
        let table = PolicyTable::of(core::iter::once(unit.rated));
        for (group, stage) in table.groups.iter().zip(&unit.instance().stages) {
            let ranks = stage.len();
            let nodes = if unit.instance().parallel.pp == 1 { unit.nodes.len() } else { 1 };
            let mut from = 0_u64;
            for (end, algorithm) in &group.rows {
                let to = if end.is_finite() { *end as u64 } else { u64::from(u32::MAX) };
                let name = match algorithm {
                    Algorithm::Ring | Algorithm::Relayed => "ring",
                    Algorithm::Tree => "tree",
                    Algorithm::InNetwork => "collnet_direct",
                };
                let line = format!("allreduce,{from},{to},{name},simple,-1,{nodes},{ranks},-1,-1");
                if seen.insert(line.clone()) {
                    let _ = writeln!(text, "{line}");
                }
                from = to.saturating_add(1);
            }
        }
    }
    text
}
