//! One server of a topology, from what it says about itself.
//!
//! Sources overlap, and this file decides between them. `nvidia-smi`'s list of GPUs is the present,
//! so it decides on their number and kind; a dump of NCCL may be old. The kernel knows NUMA nodes and
//! cards, and the table of `nvidia-smi topo -m`, or NCCL, knows NVLink. Where two sources differ, the
//! difference is reported as a conflict with the source that decided.

use meridian_engine::{GPUS, Gpu};

use super::cards::{Cards, cards};
use super::gpus::{Row, kind, memory, rows};
use super::parts::{Parts, numa, pci};
use super::{Asked, Given};
use crate::import::{ServerSpec, from_nccl, from_smi, socket};
use crate::problem::{Problems, one_of};
use crate::units::Rate;

/// A server and what to know about it.
pub(super) struct Server {
    /// Without count and names.
    pub(super) spec: ServerSpec,
    /// What was assumed or left out, as the end of a sentence that starts with the server's name.
    pub(super) notes: Vec<String>,
    /// Where its sources differ.
    pub(super) conflicts: Vec<String>,
}

/// What a source says about the parts that several know.
struct Source {
    name: &'static str,
    spec: ServerSpec,
}

pub(super) fn server(given: &Given<'_>, asked: &Asked) -> Result<Server, Problems> {
    let name = given.server;
    let parts = Parts::read(name, given.said)?;
    let rows = rows(parts.get("gpus"));
    let (kind, mut notes) = kind_of(name, rows.as_deref(), &parts, asked)?;
    let (sources, unread) = sources(given, &parts, kind.name, asked);
    notes.extend(unread);
    let listed = rows.as_ref().map(|rows| rows.len() as u32);
    let gpus = listed.or_else(|| sources.first().map(|one| one.spec.gpus));
    let Some(gpus) = gpus else { return Err(nothing(name, &parts)) };
    let mut conflicts = Vec::new();
    for other in sources.iter().filter(|other| other.spec.gpus != gpus) {
        let by = if listed.is_some() { "nvidia-smi" } else { sources[0].name };
        let (own, count) = (other.name, other.spec.gpus);
        conflicts.push(format!("{own} has {count} GPUs, {by} {gpus}; {gpus} are in the file"));
    }
    let nvlink = agreed_nvlink(&sources, gpus, &mut conflicts);
    let found = cards(parts.get("sysfs"), &asked.leave_out, asked.card_rate);
    notes.extend(found.others.iter().map(|(name, why)| format!("card {name} is left out: {why}")));
    let (card_numa, card_rate) = use_cards(&found, &sources, &mut notes, &mut conflicts);
    let numa = numa_of(rows.as_deref(), parts.get("sysfs"), &sources, gpus);
    let row = rows.as_ref().and_then(|rows| rows.first());
    let spec = ServerSpec {
        count: 1,
        name: None,
        hosts: Vec::new(),
        gpu: kind.name.to_owned(),
        gpus,
        memory: row.and_then(|row| memory(&kind, row)),
        nvlink,
        pcie: None,
        socket: socket(),
        numa: plain(numa),
        cards: card_numa.len() as u32,
        card_rate,
        card_numa: plain(card_numa),
    };
    Ok(Server { spec, notes, conflicts })
}

/// All of node 0 is the default, which files leave out.
fn plain(nodes: Vec<u8>) -> Vec<u8> {
    if nodes.iter().all(|node| *node == 0) { Vec::new() } else { nodes }
}

/// The kind of GPU of a server, which has one kind.
fn kind_of(
    server: &str,
    rows: Option<&[Row]>,
    parts: &Parts<'_>,
    asked: &Asked,
) -> Result<(Gpu, Vec<String>), Problems> {
    if let Some(name) = &asked.gpu {
        let known: Vec<&str> = GPUS.iter().map(|gpu| gpu.name).collect();
        let gpu = Gpu::named(name)
            .ok_or_else(|| Problems::one("--gpu", name, format!("use {}", one_of(name, &known))))?;
        return Ok((gpu, vec![format!("its GPUs are planned as {name}, as --gpu says")]));
    }
    let Some(first) = rows.and_then(<[Row]>::first) else {
        let said = parts.get("gpus").lines().next().unwrap_or("nothing").to_owned();
        let remedy = "nvidia-smi does not list its GPUs; give their kind with --gpu, or leave the \
                      server out";
        return Err(Problems::one(format!("{server}: nvidia-smi"), said, remedy));
    };
    let other = rows.into_iter().flatten().find(|row| row.name != first.name);
    if let Some(other) = other {
        let value = format!("{} and {}", first.name, other.name);
        let remedy = "a server of a topology has GPUs of one kind; write this server by hand";
        return Err(Problems::one(format!("{server}: GPU"), value, remedy));
    }
    let (gpu, note) = kind(server, first)?;
    Ok((gpu, note.into_iter().collect()))
}

/// The sources that list devices, and the reason for each one that can't be read.
fn sources(
    given: &Given<'_>,
    parts: &Parts<'_>,
    kind: &str,
    asked: &Asked,
) -> (Vec<Source>, Vec<String>) {
    let (mut sources, mut unread) = (Vec::new(), Vec::new());
    let dump = if given.nccl.is_empty() { parts.get("nccl") } else { given.nccl };
    // The rate is that of the kernel; the table has none.
    let rate = asked.card_rate.unwrap_or(Rate(12.5e9));
    for (name, text) in [("nvidia-smi topo -m", parts.get("topo")), ("NCCL's dump", dump)] {
        if text.trim().is_empty() {
            continue;
        }
        let spec =
            if name == "NCCL's dump" { from_nccl(text, kind) } else { from_smi(text, kind, rate) };
        match spec.map(|spec| spec.units.into_iter().flat_map(|unit| unit.servers).next()) {
            Ok(Some(spec)) => sources.push(Source { name, spec }),
            Ok(None) => {}
            Err(problems) => unread.push(format!("{name} is not used: {}", problems.0[0])),
        }
    }
    (sources, unread)
}

fn nothing(server: &str, parts: &Parts<'_>) -> Problems {
    let said = parts.get("topo").lines().next().unwrap_or("nothing").to_owned();
    let remedy = "no source lists its GPUs; run the script where nvidia-smi works, or add a dump of \
                  NCCL";
    Problems::one(format!("{server}: GPUs"), said, remedy)
}

/// NVLink of the first source that lists all GPUs; the others must agree.
fn agreed_nvlink(sources: &[Source], gpus: u32, conflicts: &mut Vec<String>) -> Option<Rate> {
    let mut all = sources.iter().filter(|source| source.spec.gpus == gpus);
    let first = all.next().or_else(|| sources.first())?;
    let text = |rate: Option<Rate>| rate.map_or("none".to_owned(), |rate| rate.to_string());
    for other in all.filter(|other| other.spec.nvlink != first.spec.nvlink) {
        let (a, b) = (text(other.spec.nvlink), text(first.spec.nvlink));
        let (by, used) = (first.name, text(first.spec.nvlink));
        conflicts
            .push(format!("{} has NVLink of {a}, {by} {b}; {used} is in the file", other.name));
    }
    first.spec.nvlink
}

/// The NUMA node of each card and their rate. The kernel's list decides, if it has any card.
fn use_cards(
    found: &Cards,
    sources: &[Source],
    notes: &mut Vec<String>,
    conflicts: &mut Vec<String>,
) -> (Vec<u8>, Option<Rate>) {
    let nccl = sources.iter().find(|source| source.name == "NCCL's dump");
    let Some(first) = found.used.first() else {
        let Some(Source { spec, .. }) = nccl.filter(|source| source.spec.cards > 0) else {
            notes.push("it shows no network card with a link and a rate".to_owned());
            return (Vec::new(), None);
        };
        return (spec.card_numa.clone(), spec.card_rate);
    };
    let names: Vec<&str> = found.used.iter().map(|card| card.name.as_str()).collect();
    notes.push(format!("its cards are {}", names.join(", ")));
    let (count, rate) = (found.used.len() as u32, first.rate.map(Rate));
    if let Some(Source { spec, .. }) = nccl {
        if spec.cards != count {
            let (other, own) = (spec.cards, count);
            conflicts.push(format!(
                "NCCL's dump has {other} cards, the kernel {own}; {own} are in the file"
            ));
        }
        let differs = |a: Rate, b: Rate| (a.0 / b.0 - 1.0).abs() > 0.01;
        if let (Some(own), Some(other)) = (rate, spec.card_rate)
            && differs(own, other)
        {
            conflicts.push(format!(
                "NCCL's dump has cards of {other}, the kernel of {own}; {own} is in the file"
            ));
        }
    }
    (found.used.iter().map(|card| card.numa).collect(), rate)
}

/// The NUMA node of each GPU: the kernel's for its PCI address, or that of a source.
fn numa_of(rows: Option<&[Row]>, sysfs: &str, sources: &[Source], gpus: u32) -> Vec<u8> {
    let node = |wanted: &str| {
        sysfs.lines().find_map(|line| match line.split('\t').collect::<Vec<_>>()[..] {
            ["gpu", address, node] if pci(address).as_deref() == Some(wanted) => Some(numa(node)),
            _ => None,
        })
    };
    let of_rows: Option<Vec<u8>> =
        rows.and_then(|rows| rows.iter().map(|row| node(row.address.as_deref()?)).collect());
    of_rows
        .or_else(|| {
            let same = sources.iter().find(|source| source.spec.gpus == gpus)?;
            Some(same.spec.numa.clone())
        })
        .unwrap_or_default()
}
