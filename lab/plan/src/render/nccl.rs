//! NCCL: the environment of each instance, and the table for a tuner plugin.
//!
//! The table has the format that the example plugin in NCCL's source reads
//! (`plugins/tuner/example`, `NCCL_TUNER_CONFIG_FILE`): collective, least and most bytes,
//! algorithm, protocol, channels, nodes, ranks, and two fields that match anything. The plugin takes
//! the first row that matches. NCCL chooses when an operation is enqueued or captured into a graph,
//! not when the graph is replayed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::Unit;
use crate::collective::Algorithm;
use crate::table::{GroupPolicy, PolicyTable};
use crate::task::Task;

/// The variables of an instance; none if it has no collective.
pub(super) fn settings(unit: &Unit<'_>) -> Vec<(&'static str, String)> {
    let mut ways = BTreeSet::new();
    let table = PolicyTable::of(core::iter::once(unit.rated));
    for group in &table.groups {
        ways.extend(group.rows.iter().map(|(_, algorithm)| *algorithm));
    }
    if ways.is_empty() {
        return Vec::new();
    }
    let switch = u8::from(ways.contains(&Algorithm::InNetwork));
    let mut settings = vec![
        ("NCCL_TUNER_CONFIG_FILE", "tuner.csv".to_owned()),
        ("NCCL_COLLNET_ENABLE", switch.to_string()),
    ];
    if ways.contains(&Algorithm::Relayed) {
        settings.push(("NCCL_CROSS_NIC", "0".to_owned()));
        settings.push(("NCCL_PXN_DISABLE", "0".to_owned()));
    }
    settings
}

pub(super) fn environment(units: &[Unit<'_>]) -> String {
    let mut text = String::new();
    for unit in units {
        let _ = writeln!(text, "# {}", unit.name);
        let settings = settings(unit);
        if settings.is_empty() {
            text.push_str("# no collective\n");
        }
        for (name, value) in settings {
            let _ = writeln!(text, "{name}={value}");
        }
    }
    text
}

/// One table for all instances. Groups of equal size on equally many servers get the rows of the
/// first of them; the plugin cannot tell them apart, so different rows are comments.
pub(super) fn tuner(task: &Task<'_>, units: &[Unit<'_>]) -> String {
    let mut text = String::from(
        "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff\n",
    );
    let mut written: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
    for unit in units {
        for group in &PolicyTable::of(core::iter::once(unit.rated)).groups {
            let servers: BTreeSet<u32> =
                group.members.iter().map(|gpu| task.topology.server_of(*gpu)).collect();
            let size = (servers.len(), group.members.len());
            let rows = rows(group, size);
            match written.get(&size) {
                None => {
                    text.extend(rows.iter().map(|row| format!("{row}\n")));
                    written.insert(size, rows);
                }
                Some(first) if *first == rows => {}
                Some(_) => {
                    let _ = writeln!(text, "# {} would be best with:", unit.name);
                    text.extend(rows.iter().map(|row| format!("# {row}\n")));
                }
            }
        }
    }
    text
}

fn rows(group: &GroupPolicy, (nodes, ranks): (usize, usize)) -> Vec<String> {
    let mut rows = Vec::new();
    let mut from = 0_u64;
    for (end, algorithm) in &group.rows {
        // The plugin's documentation gives 4294967295 for "no limit".
        let to = if end.is_finite() { *end as u64 } else { u64::from(u32::MAX) };
        let name = match algorithm {
            Algorithm::Ring | Algorithm::Relayed => "ring",
            Algorithm::Tree => "tree",
            Algorithm::InNetwork => "collnet_direct",
        };
        rows.push(format!("allreduce,{from},{to},{name},simple,-1,{nodes},{ranks},-1,-1"));
        from = to.saturating_add(1);
    }
    rows
}
