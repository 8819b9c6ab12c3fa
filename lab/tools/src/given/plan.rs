//! Turns a file of flows into a simulation, or reports its errors.

use std::collections::BTreeMap;

use anyhow::{Context, bail, ensure};
use meridian_base::{Duration, PortId, Time};
use meridian_fabric::Path;
use meridian_flow as flow;
use meridian_sim::cluster::{Enforce, Given, GivenFlow, GivenRequest};

use super::file::{File, Flow, Stage};
use crate::cluster::plan::config;

/// Limits of a file, which is for worked examples and not for a data centre.
const FLOWS: usize = 10_000;
const PORTS: usize = 4096;
const LAYERS: u16 = 4096;
pub(super) const LONGEST: Duration = Duration::from_secs(3600);

/// The simulation of `policy` for a file.
///
/// # Errors
///
/// If the file is invalid; the error names the field, its value and the remedy.
pub fn given(file: &File, policy: &str, seed: u64) -> anyhow::Result<Given> {
    ensure!(!file.flows.is_empty(), "flows is empty: name at least one");
    ensure!(file.flows.len() <= FLOWS, "flows are {}: use at most {FLOWS}", file.flows.len());
    ensure!(file.ports.len() <= PORTS, "ports are {}: use at most {PORTS}", file.ports.len());
    let numbers = Numbers::of(file)?;
    let mut flows = Vec::new();
    for (nth, one) in file.flows.iter().enumerate() {
        flows.push(numbers.flow(file, one).with_context(|| place(file, nth))?);
    }
    let begins = order(file, &flows)?;
    for (nth, one) in file.flows.iter().enumerate() {
        deadline(one, begins[nth]).with_context(|| place(file, nth))?;
        layers(file, &flows, nth, &numbers).with_context(|| place(file, nth))?;
    }
    bounded(file, &flows, &begins)?;
    Ok(Given {
        seed,
        rates: file.ports.values().map(|rate| rate.0).collect(),
        requests: numbers.requests,
        flows,
        layer_times: Vec::new(),
        flow: config(&file.flow, policy)?,
        enforce: Enforce::Total,
        watch: None,
    })
}

/// The request that a flow is part of.
pub(super) fn request(flow: &Flow) -> &str {
    flow.request.as_deref().unwrap_or(&flow.name)
}

fn place(file: &File, nth: usize) -> String {
    format!("flows[{nth}] ({})", file.flows[nth].name)
}

/// Names as numbers.
struct Numbers<'a> {
    ports: BTreeMap<&'a str, u32>,
    flows: BTreeMap<&'a str, u32>,
    by_request: BTreeMap<&'a str, u32>,
    requests: Vec<GivenRequest>,
}

impl<'a> Numbers<'a> {
    fn of(file: &'a File) -> anyhow::Result<Numbers<'a>> {
        let ports = file.ports.keys().map(String::as_str).zip(0..).collect();
        let mut flows = BTreeMap::new();
        let mut by_request = BTreeMap::new();
        let mut batches: BTreeMap<&str, u32> = BTreeMap::new();
        let mut requests: Vec<GivenRequest> = Vec::new();
        // By request: the batch that a flow named for it.
        let mut named: Vec<Option<&str>> = Vec::new();
        for (nth, one) in file.flows.iter().enumerate() {
            if flows.insert(one.name.as_str(), nth as u32).is_some() {
                bail!(
                    "flows[{nth}].name is `{}` for a second time: give each its own name",
                    one.name
                );
            }
            let number = *by_request.entry(request(one)).or_insert(requests.len() as u32);
            let due = one.deadline.map(|span| Time::ZERO + span.0);
            if number as usize == requests.len() {
                requests.push(GivenRequest { batch: 0, deadline: due });
                named.push(one.batch.as_deref());
                continue;
            }
            let known = &mut requests[number as usize];
            let (name, of) = (place(file, nth), request(one));
            if let (Some(a), Some(b)) = (known.deadline, due)
                && a != b
            {
                bail!("{name}.deadline is {b}, and request `{of}` has {a}: give it once");
            }
            known.deadline = known.deadline.or(due);
            let batch = &mut named[number as usize];
            if let (Some(a), Some(b)) = (*batch, one.batch.as_deref())
                && a != b
            {
                bail!("{name}.batch is `{b}`, and request `{of}` is in `{a}`: name one");
            }
            *batch = batch.or(one.batch.as_deref());
        }
        let names: BTreeMap<u32, &str> =
            by_request.iter().map(|(name, nth)| (*nth, *name)).collect();
        for (nth, request) in requests.iter_mut().enumerate() {
            let batch = named[nth].unwrap_or(names[&(nth as u32)]);
            let next = batches.len() as u32;
            request.batch = *batches.entry(batch).or_insert(next);
        }
        Ok(Numbers { ports, flows, by_request, requests })
    }

    fn flow(&self, file: &File, one: &Flow) -> anyhow::Result<GivenFlow> {
        let Some(size) = one.size else {
            bail!("size is missing: a flow is scheduled by its bytes; give them, as in size: 2MB");
        };
        ensure!(size.0 > 0, "size is 0B: give at least 1B, or leave the flow out");
        ensure!(one.layer < LAYERS, "layer is {}: use 0 to {}", one.layer, LAYERS - 1);
        let known = || file.ports.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let mut ports = Vec::new();
        for name in &one.ports {
            let found = self.ports.get(name.as_str());
            let found = found.with_context(|| {
                format!("ports names `{name}`, which has no rate: use one of {}", known())
            })?;
            ports.push(PortId(*found));
        }
        ensure!(
            !ports.is_empty(),
            "ports is empty: name the ports that the flow crosses, of {}",
            known()
        );
        let most = flow::Ports::MOST;
        ensure!(ports.len() <= most, "ports are {}: a flow crosses at most {most}", ports.len());
        let path = Path::new(&ports).context("ports has a name twice: give each once")?;
        let mut after = Vec::new();
        for name in &one.after {
            let found = self.flows.get(name.as_str());
            after.push(*found.with_context(|| {
                format!(
                    "after names `{name}`, which is not a flow: use a flow's name, or leave it out"
                )
            })?);
        }
        after.sort_unstable();
        after.dedup();
        Ok(GivenFlow {
            request: self.by_request[request(one)],
            stage: one.stage.into(),
            layer: one.layer,
            bytes: size.0,
            path,
            release: one.release.0,
            from: Time::ZERO,
            after,
        })
    }
}

impl From<Stage> for flow::Stage {
    fn from(stage: Stage) -> flow::Stage {
        match stage {
            Stage::Reuse => flow::Stage::Reuse,
            Stage::Collective => flow::Stage::Collective,
            Stage::Handoff => flow::Stage::Handoff,
        }
    }
}

/// The earliest start of each flow; flows that wait for each other have none.
fn order(file: &File, flows: &[GivenFlow]) -> anyhow::Result<Vec<Duration>> {
    let mut begins: Vec<Option<Duration>> = vec![None; flows.len()];
    let mut left: Vec<usize> = (0..flows.len()).collect();
    while !left.is_empty() {
        let before = left.len();
        left.retain(|nth| {
            let of: Option<Vec<Duration>> =
                flows[*nth].after.iter().map(|other| begins[*other as usize]).collect();
            let last = of.map(|of| of.into_iter().max().unwrap_or_default());
            begins[*nth] = last.map(|last| last.saturating_add(flows[*nth].release));
            begins[*nth].is_none()
        });
        if left.len() == before {
            return Err(cycle(file, flows, left[0], &left));
        }
    }
    Ok(begins.into_iter().map(|begin| begin.expect("every flow was reached")).collect())
}

/// A cycle among waiting flows, reported by their names.
fn cycle(file: &File, flows: &[GivenFlow], from: usize, left: &[usize]) -> anyhow::Error {
    let waits = |nth: usize| {
        let found = flows[nth].after.iter().find(|other| left.contains(&(**other as usize)));
        *found.expect("a flow that never starts waits for one that never starts") as usize
    };
    // After as many steps as there are flows the search is inside the cycle.
    let first = left.iter().fold(from, |at, _| waits(at));
    let (mut names, mut at) = (vec![file.flows[first].name.as_str()], waits(first));
    while at != first {
        names.push(&file.flows[at].name);
        at = waits(at);
    }
    names.push(&file.flows[first].name);
    let (name, path) = (place(file, first), names.join(" after "));
    anyhow::anyhow!("{name}.after is a cycle, {path}: none of them could start; leave one out")
}

fn deadline(one: &Flow, begins: Duration) -> anyhow::Result<()> {
    let Some(due) = one.deadline.map(|span| span.0) else { return Ok(()) };
    ensure!(
        due > begins,
        "deadline is {due:?}, and the flow begins at {begins:?} at the earliest: a deadline in the past; \
         give a later one, or none for best effort"
    );
    ensure!(due <= LONGEST, "deadline is {due:?}: use {LONGEST:?} or less");
    Ok(())
}

/// Layers of a batch count up.
fn layers(file: &File, flows: &[GivenFlow], nth: usize, numbers: &Numbers) -> anyhow::Result<()> {
    let one = &flows[nth];
    let batch = |flow: &GivenFlow| numbers.requests[flow.request as usize].batch;
    for &other in one.after.iter().filter(|_| one.stage.is_early()) {
        let before = &flows[other as usize];
        let early = before.stage.is_early() && batch(before) == batch(one);
        ensure!(
            !early || before.layer <= one.layer,
            "layer is {} and comes after layer {} (`{}`) of its batch: layers would run in a cycle; \
             count up, or give the later chunk a batch of its own",
            one.layer,
            before.layer,
            file.flows[other as usize].name
        );
    }
    Ok(())
}

/// The run is bounded: once the last flow can start, it takes no longer than all flows one at a
/// time at their slowest ports.
fn bounded(file: &File, flows: &[GivenFlow], begins: &[Duration]) -> anyhow::Result<()> {
    let rates: Vec<f64> = file.ports.values().map(|rate| rate.0).collect();
    let alone = |one: &GivenFlow| {
        let slowest = one.path.ports().iter().map(|port| rates[port.index()]);
        one.bytes as f64 / slowest.fold(f64::INFINITY, f64::min)
    };
    let mut sum = begins.iter().max().map_or(0.0, Duration::as_secs_f64);
    let mut most = (0.0, 0);
    for (nth, one) in flows.iter().enumerate() {
        sum += alone(one);
        most = if alone(one) > most.0 { (alone(one), nth) } else { most };
    }
    ensure!(
        sum <= LONGEST.as_secs_f64(),
        "flows take up to {sum:.0} s one after the other, {} most with {:.0} s: make sizes smaller, \
         ports faster or releases earlier; {} s is the most",
        place(file, most.1),
        most.0,
        LONGEST.as_secs()
    );
    Ok(())
}
