//! One server from the table that `nvidia-smi topo -m` prints.
//!
//! A row a device, a column a device: `NV12` is twelve NVLinks, `PIX`, `PXB`, `PHB`, `NODE` and
//! `SYS` are paths over PCIe, the last between NUMA nodes. The columns at the end name each GPU's
//! NUMA node. The cards' rate is not in it and must be given.

use crate::import::spec::{AccessSpec, ServerSpec, TopologySpec, UnitSpec, VERSION, socket};
use crate::problem::Problems;
use crate::units::Rate;

/// Reads the table. It does not contain the GPUs' kind and the cards' rate, which must be given.
///
/// # Errors
///
/// Missing or invalid parts of the table.
pub fn from_smi(text: &str, gpu: &str, card_rate: Rate) -> Result<TopologySpec, Problems> {
    let plain = unstyled(text);
    let missing =
        |what: &str| Problems::one("nvidia-smi", what, "give what `nvidia-smi topo -m` prints");
    let mut lines = plain.lines().skip_while(|line| !line.trim_start().starts_with("GPU0"));
    let header = lines.next().ok_or_else(|| missing("no line of column names"))?;
    let devices: Vec<&str> = header
        .split_whitespace()
        .take_while(|word| is(word, "GPU") || is(word, "NIC") || is(word, "mlx"))
        .collect();
    let rows: Vec<Vec<&str>> = lines
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .take_while(|row| row.first().is_some_and(|name| devices.contains(name)))
        .collect();
    if rows.len() != devices.len() {
        let what = format!("{} rows for {} columns", rows.len(), devices.len());
        return Err(missing(&what));
    }
    let short = rows.iter().find(|row| row.len() <= devices.len());
    if let Some(row) = short {
        return Err(missing(&format!("row {} has {} cells", row[0], row.len() - 1)));
    }
    let gpus: Vec<usize> = (0..devices.len()).filter(|at| is(devices[*at], "GPU")).collect();
    let cards: Vec<usize> = (0..devices.len()).filter(|at| !is(devices[*at], "GPU")).collect();
    let numa: Vec<u8> = gpus.iter().map(|at| node(header, &rows[*at], devices.len())).collect();
    // A card belongs to the NUMA node of its nearest GPU.
    let near = |card: usize| {
        let rank = |at: &usize| closeness(rows[*at][card + 1]);
        let nearest = (0..gpus.len()).min_by_key(|nth| rank(&gpus[*nth]));
        nearest.map_or(0, |nth| numa[nth])
    };
    let server = ServerSpec {
        count: 1,
        name: None,
        hosts: Vec::new(),
        gpu: gpu.to_owned(),
        gpus: gpus.len() as u32,
        memory: None,
        nvlink: links(&rows, &gpus, gpu),
        pcie: None,
        socket: socket(),
        card_numa: cards.iter().map(|card| near(*card)).collect(),
        cards: cards.len() as u32,
        card_rate: (!cards.is_empty()).then_some(card_rate),
        numa,
    };
    let unit = UnitSpec { count: 1, access: AccessSpec::default(), servers: vec![server] };
    let name = "imported".to_owned();
    let spec = TopologySpec {
        version: VERSION,
        name,
        units: vec![unit],
        core: None,
        measured: Vec::new(),
    };
    Problems(spec.problems()).or(spec)
}

/// The rate of `links` NVLinks of a GPU, in each direction: 25 GB/s each, from the V100's to the
/// H200's.
pub(super) fn nvlink(links: u32) -> Rate {
    Rate(f64::from(links) * 25e9)
}

/// NVLink of the GPU with the fewest links: with a switch every column shows all links, in a mesh
/// each shows its own. `None` if some GPU has no NVLink.
fn links(rows: &[Vec<&str>], gpus: &[usize], gpu: &str) -> Option<Rate> {
    let most = match gpu {
        "v100" => 6,
        "h100" | "h200" => 18,
        _ => 12,
    };
    let of = |at: &usize| {
        let count = |to: &usize| rows[*at][to + 1].strip_prefix("NV")?.parse::<u32>().ok();
        gpus.iter().filter_map(count).sum::<u32>().min(most)
    };
    let least = gpus.iter().map(of).min().filter(|least| *least > 0)?;
    Some(nvlink(least))
}

fn is(word: &str, stem: &str) -> bool {
    word.strip_prefix(stem).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// The NUMA node of a row: after the devices come the CPUs (0-15 or 0-15,32-47) and then the node.
fn node(header: &str, row: &[&str], devices: usize) -> u8 {
    let cpus = header.contains("CPU Affinity");
    let at = 1 + devices + usize::from(cpus);
    row.get(at).and_then(|cell| cell.split(['-', ',']).next()?.parse().ok()).unwrap_or(0)
}

fn closeness(cell: &str) -> u8 {
    ["PIX", "PXB", "PHB", "NODE", "SYS"].iter().position(|one| *one == cell).unwrap_or(5) as u8
}

/// The table without the escape sequences that underline its header.
fn unstyled(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        plain.push_str(&rest[..at]);
        let tail = &rest[at..];
        let end = tail.find('m').map_or(tail.len(), |end| end + 1);
        rest = &tail[end..];
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\t\u{1b}[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\u{1b}[0m
GPU0\t X \tNV4\tNV4\tNV4\tPXB\tSYS\t0-15,32-47\t0\t\tN/A
GPU1\tNV4\t X \tNV4\tNV4\tPXB\tSYS\t0-15,32-47\t0\t\tN/A
GPU2\tNV4\tNV4\t X \tNV4\tSYS\tPIX\t16-31,48-63\t1\t\tN/A
GPU3\tNV4\tNV4\tNV4\t X \tSYS\tPIX\t16-31,48-63\t1\t\tN/A
NIC0\tPXB\tPXB\tSYS\tSYS\t X \tSYS\t\t\t\t
NIC1\tSYS\tSYS\tPIX\tPIX\tSYS\t X \t\t\t\t

Legend:

  X    = Self
";

    // A mesh of NVLinks, cards and NUMA nodes are read from the table.
    #[test]
    fn a_table_becomes_a_server() {
        let spec = from_smi(TABLE, "a100", Rate(25e9)).unwrap();
        let server = &spec.units[0].servers[0];
        assert_eq!((server.gpus, server.cards), (4, 2));
        assert_eq!((&server.numa[..], &server.card_numa[..]), (&[0, 0, 1, 1][..], &[0, 1][..]));
        assert_eq!(server.nvlink, Some(Rate(300e9)));
    }

    // With a switch every column shows all links, and they are not counted twice.
    #[test]
    fn a_switch_is_not_a_mesh() {
        let spec = from_smi(&TABLE.replace("NV4", "NV12"), "a100", Rate(25e9)).unwrap();
        assert_eq!(spec.units[0].servers[0].nvlink, Some(Rate(300e9)));
        let plain = from_smi(&TABLE.replace("NV4", "SYS"), "l40s", Rate(25e9)).unwrap();
        assert_eq!(plain.units[0].servers[0].nvlink, None);
    }

    // A truncated or missing table is refused.
    #[test]
    fn half_a_table_is_refused() {
        let error = |text: &str| from_smi(text, "a100", Rate(25e9)).unwrap_err().to_string();
        assert!(error("NVIDIA-SMI has failed").starts_with("nvidia-smi: no line of column names;"));
        assert!(error(&TABLE[..200]).contains("rows for 6 columns"));
        let cut =
            TABLE.replace("GPU3\tNV4\tNV4\tNV4\t X \tSYS\tPIX\t16-31,48-63\t1\t\tN/A", "GPU3\tNV4");
        assert!(error(&cut).contains("row GPU3 has 1 cells"), "{}", error(&cut));
    }
}
