//! Turns a placement into a simulation: instances in parts, the ways of a system, and the shared
//! ports.

use anyhow::{Context as _, anyhow};
use meridian_base::Time;
use meridian_plan::{Instance, LinkId, Loads, Parts, PolicyTable, Task, Topology, transfer};
use meridian_sim::fleet::{self, Aggregated, Report, Request, Setup, Stage};

use super::assumptions::{Assumption, Assumptions};
use super::choose::Chooser;
use super::place::Placed;
use super::ports::{Ports, Raw, Senders};
use super::system::System;

/// A system on a placement, ready to run.
pub struct Deployed<'a> {
    topology: &'a Topology,
    system: System,
    assumed: Assumptions,
    setup: Setup,
    table: PolicyTable,
    links: Vec<LinkId>,
}

impl<'a> Deployed<'a> {
    /// Lays a system out.
    ///
    /// # Errors
    ///
    /// When an instance can't run at its place, or KV has no path.
    pub fn new(
        task: &Task<'a>,
        system: System,
        assumed: Assumptions,
        placed: &Placed,
    ) -> anyhow::Result<Deployed<'a>> {
        let (topology, stored) = (task.topology, assumed.has(Assumption::StoreAndForward));
        let (mut senders, mut table) = (Senders::new(topology), PolicyTable::default());
        let mut parts = Vec::new();
        for (instance, _) in placed.prefill.iter().chain(&placed.decode) {
            let of = Parts::of(task, instance)
                .map_err(|why| anyhow!("{} does not run: {why:?}", instance.phase.name()))?;
            for (members, stage) in instance.stages.iter().zip(&of.stages) {
                senders.group(system, assumed, members, &mut table);
                stage.pass.iter().for_each(|(_, _, loads)| senders.add(loads));
            }
            parts.push(of);
        }
        let handoffs = handoffs(task, placed, &mut senders)?;
        let ports = senders.ports(system);
        let (mut group, mut parts) = (0, parts.iter());
        let mut instances = |list: &[(Instance, f64)]| -> Vec<fleet::Instance> {
            list.iter()
                .zip(parts.by_ref())
                .map(|(one, parts)| instance(one, parts, &table, &ports, &mut group))
                .collect()
        };
        let row = |row: &Vec<Raw>| row.iter().map(|way| ports.way(way)).collect();
        let setup = Setup {
            prefill: instances(&placed.prefill),
            decode: instances(&placed.decode),
            ports: ports.rates(),
            handoff: handoffs.iter().map(row).collect(),
            // The paper sends KV after a prompt is computed, not during it.
            layers: if stored { 1 } else { task.subject.shape.layers },
            ..Setup::default()
        };
        let links = ports.links;
        Ok(Deployed { topology, system, assumed, setup, table, links })
    }

    /// Lays aggregated instances out: each with its share of the requests, in any unit, and the
    /// tokens that a step of it may have.
    ///
    /// # Errors
    ///
    /// When an instance can't run at its place.
    pub fn aggregated(
        task: &Task<'a>,
        instances: &[(Instance, f64, u32)],
    ) -> anyhow::Result<Deployed<'a>> {
        let (system, assumed) = (System::Heroserve, Assumptions::default());
        let topology = task.topology;
        let (mut senders, mut table) = (Senders::new(topology), PolicyTable::default());
        let mut parts = Vec::new();
        for (instance, ..) in instances {
            let of = Parts::of(task, instance).map_err(|why| anyhow!("does not run: {why:?}"))?;
            for (members, stage) in instance.stages.iter().zip(&of.stages) {
                senders.group(system, assumed, members, &mut table);
                stage.pass.iter().for_each(|(_, _, loads)| senders.add(loads));
            }
            parts.push(of);
        }
        let ports = senders.ports(system);
        let mut group = 0;
        let mut one = |((of, weight, budget), parts): (&(Instance, f64, u32), &Parts)| {
            let one = (of.clone(), *weight);
            let mut engine = instance(&one, parts, &table, &ports, &mut group);
            engine.together = if of.parallel.ep { of.parallel.tp as usize } else { 1 };
            Aggregated { engine, budget: *budget }
        };
        let aggregated = instances.iter().zip(&parts).map(&mut one).collect();
        let setup = Setup { aggregated, ports: ports.rates(), layers: 1, ..Setup::default() };
        let links = ports.links;
        Ok(Deployed { topology, system, assumed, setup, table, links })
    }

    /// Whether another has the same run: the same instances, and no choice of ways.
    #[must_use]
    pub fn same(&self, other: &Deployed<'_>) -> bool {
        let chooses = |one: &Deployed<'_>| one.table.groups.iter().any(|g| g.choices.len() > 1);
        let parts = |one: &Deployed<'_>| {
            (one.setup.prefill.clone(), one.setup.decode.clone(), one.setup.handoff.clone())
        };
        !chooses(self) && !chooses(other) && parts(self) == parts(other)
    }

    /// Runs it until `until`; also returns how often each algorithm was chosen.
    #[must_use]
    pub fn run(&self, requests: Vec<Request>, until: Time) -> (Report, [u64; 4]) {
        let setup = Setup { requests, until, ..self.setup.clone() };
        let (table, links) = (self.table.clone(), self.links.clone());
        let mut chooser = Chooser::new(self.system, self.assumed, self.topology, table, links);
        let report = fleet::run(&setup, &mut chooser);
        (report, chooser.picked())
    }
}

/// The way of a token's KV from each prefill to each decode instance.
fn handoffs(
    task: &Task<'_>,
    placed: &Placed,
    senders: &mut Senders<'_>,
) -> anyhow::Result<Vec<Vec<Raw>>> {
    let mean = task.prompt.mean;
    let mut one = |from: &Instance, to: &Instance| -> anyhow::Result<Raw> {
        let sent = transfer(task, from, to).context("KV has no way; join the servers")?;
        // Added twice: one prompt's KV may still be in transfer when the next one's starts, and
        // then they share.
        senders.add(&sent.loads);
        senders.add(&sent.loads);
        let mut loads = Loads::default();
        loads.merge(&sent.loads, 1.0 / mean);
        Ok((0.0, sent.seconds / mean, loads))
    };
    let mut row = |(from, _): &(Instance, f64)| -> anyhow::Result<Vec<Raw>> {
        placed.decode.iter().map(|(to, _)| one(from, to)).collect()
    };
    placed.prefill.iter().map(&mut row).collect()
}

/// An instance whose first communicator is `group`.
fn instance(
    (instance, weight): &(Instance, f64),
    parts: &Parts,
    table: &PolicyTable,
    ports: &Ports<'_>,
    group: &mut usize,
) -> fleet::Instance {
    let stages = parts.stages.iter().map(|stage| {
        *group += 1;
        Stage {
            terms: stage.terms,
            reductions: stage.reductions,
            group: *group - 1,
            ways: ports.ways(&table.groups[*group - 1]),
            pass: stage.pass.as_ref().map(|pass| ports.way(pass)),
        }
    });
    let prompts = instance.parallel.ep && instance.phase == meridian_plan::Phase::Prefill;
    fleet::Instance {
        stages: stages.collect(),
        token_bytes: parts.token_bytes,
        together: if prompts { instance.parallel.tp as usize } else { 1 },
        seats: parts.seats as usize,
        kv_tokens: parts.kv_tokens,
        weight: *weight,
    }
}
