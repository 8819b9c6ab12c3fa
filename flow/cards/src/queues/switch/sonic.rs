//! SONiC, as tables of `config_db.json`.

use super::Queue;

pub(super) fn template(queues: &[Queue]) -> String {
    // A map lists all code points. Control traffic keeps its queues, the rest is unmarked.
    let queue = |dscp: u8| {
        let ours = queues.iter().find(|queue| queue.dscps.contains(&dscp));
        ours.map_or(if dscp >= 48 { dscp >> 3 } else { 0 }, |queue| queue.number)
    };
    let map = rows((0..64).map(|dscp| format!("\"{dscp}\": \"{}\"", queue(dscp))), 6);
    let identity = rows((0..8).map(|tc| format!("\"{tc}\": \"{tc}\"")), 8);
    let schedulers = queues.iter().map(|Queue { number, weight, .. }| {
        format!("\"meridian.{number}\": {{\"type\": \"DWRR\", \"weight\": \"{weight}\"}}")
    });
    let ports = queues.iter().map(|Queue { number, .. }| {
        format!("\"Ethernet0|{number}\": {{\"scheduler\": \"meridian.{number}\"}}")
    });
    let (schedulers, ports) = (rows(schedulers, 1), rows(ports, 1));
    format!(
        "{{\n  \"DSCP_TO_TC_MAP\": {{\"MERIDIAN\": {{{map}}}}},\n  \
         \"TC_TO_QUEUE_MAP\": {{\"MERIDIAN\": {{{identity}}}}},\n  \
         \"PORT_QOS_MAP\": {{\"Ethernet0\": {{\"dscp_to_tc_map\": \"MERIDIAN\", \
         \"tc_to_queue_map\": \"MERIDIAN\"}}}},\n  \
         \"SCHEDULER\": {{{schedulers}}},\n  \
         \"QUEUE\": {{{ports}}}\n}}\n"
    )
}

/// Entries of an object, some to a line.
fn rows(entries: impl Iterator<Item = String>, width: usize) -> String {
    let entries: Vec<String> = entries.collect();
    let rows: Vec<String> = entries.chunks(width).map(|row| row.join(", ")).collect();
    format!("\n    {}", rows.join(",\n    "))
}
