//! The plan on real sockets: each host a network namespace with one process, Mooncake for KV.
//!
//! Systems alternate within a round, so that a change of the machine's load meets all of them. Nothing
//! of the machine's own network is touched: hosts and bridge are in namespaces that a run removes.

mod counters;
mod doctors;
mod network;
mod node;
mod place;

use std::time::Duration;

use anyhow::Context as _;
use meridian_tools::stats;
use serde_json::json;

use super::FAIR;
use super::flows::HOSTS;
use super::forecast::Forecast;
use super::plan::Plan;
use super::score::{Ends, Score};
use crate::experiment::runner::Progress;
use crate::experiment::spec::{FlowTestbed, Gated, TestbedSystem};
use counters::Ticks;
use doctors::Doctors;
use network::Network;
use node::{Node, Part};
use place::Place;

/// From the moment when all hosts are ready to the start of a run.
const LEAD: Duration = Duration::from_secs(2);

/// One live run.
#[derive(Clone, Debug, Default)]
pub(super) struct Live {
    pub(super) score: Score,
    /// Share of the processors in use, and of it by programs of low priority.
    pub(super) busy: f64,
    pub(super) nice: f64,
    /// The share that the hosts' processes used.
    pub(super) own: f64,
    /// Mean use of the busiest direction of a link.
    pub(super) busiest: f64,
    /// Bytes that had permits, and failed calls of gates.
    pub(super) gated: u64,
    pub(super) problems: u64,
    /// The doctor's, of a run under fair sharing.
    pub(super) forecast: Option<Forecast>,
}

impl Live {
    /// The median of each figure.
    pub(super) fn median(runs: &[Live]) -> Live {
        let of = |get: fn(&Live) -> f64| {
            stats::median(&runs.iter().map(get).collect::<Vec<_>>()).unwrap_or_default()
        };
        Live {
            score: Score {
                in_time: of(|run| run.score.in_time),
                ttft: of(|run| run.score.ttft),
                exchange: of(|run| run.score.exchange),
            },
            busy: of(|run| run.busy),
            nice: of(|run| run.nice),
            own: of(|run| run.own),
            busiest: of(|run| run.busiest),
            gated: of(|run| run.gated as f64) as u64,
            problems: runs.iter().map(|run| run.problems).sum(),
            forecast: None,
        }
    }
}

/// Runs every system in every round; by system, its runs.
///
/// # Errors
/// If the machine lacks something that the hosts need, or a process fails.
pub(super) fn rounds(
    spec: &FlowTestbed,
    plan: &Plan,
    progress: &Progress<'_>,
) -> anyhow::Result<Vec<Vec<Live>>> {
    let place = Place::find(spec)?;
    let count = spec.systems.len();
    let mut found = vec![Vec::new(); count];
    for round in 0..spec.rounds as usize {
        for nth in 0..count {
            // Each round starts with another system.
            let at = (round + nth) % count;
            let system = &spec.systems[at];
            let run = once(spec, plan, system, &place).with_context(|| system.name.clone())?;
            let Score { in_time, ttft, exchange } = run.score;
            let line = format!(
                "{}, live: {:.1} % in time, TTFT {ttft:.0} ms, exchange {exchange:.1} ms",
                system.name,
                100.0 * in_time
            );
            found[at].push(run);
            progress(round * count + nth + 1, spec.rounds as usize * count, &line);
        }
    }
    Ok(found)
}

fn once(
    spec: &FlowTestbed,
    plan: &Plan,
    system: &TestbedSystem,
    place: &Place,
) -> anyhow::Result<Live> {
    let network = Network::new(spec, system)?;
    let coordinator = match system.gate {
        Gated::All => Some(place.coordinator(&network)?),
        Gated::None | Gated::Kv => None,
    };
    let address = coordinator.as_ref().map(|(_, address)| address.as_str());
    let mut nodes = HOSTS
        .iter()
        .map(|host| place.node(&network, host, &settings(plan, system, &network, host, address)))
        .collect::<anyhow::Result<Vec<Node>>>()?;
    begin(&mut nodes)?;
    let used = || nodes.iter().map(Node::ticks).sum::<anyhow::Result<u64>>();
    let _coordinator = match coordinator {
        Some((node, _)) if system.lose_coordinator => {
            lose(node, plan);
            None
        }
        other => other,
    };
    let (ticks, bytes, before) = (Ticks::now()?, network.carried()?, used()?);
    let doctors = match system.name == FAIR {
        true => Doctors::start(spec, plan, &network, place)?,
        false => Doctors::default(),
    };
    let parts: Vec<Part> = nodes.iter().map(Node::done).collect::<anyhow::Result<_>>()?;
    let now = Ticks::now()?;
    let (busy, nice) = now.since(ticks);
    let own = (used()? - before) as f64 / now.all_since(ticks);
    let ends = ends(plan, &parts)?;
    let span = ends.requests.iter().fold(0.0_f64, |last, end| last.max(*end)) + LEAD.as_secs_f64();
    let most = network.carried()?.iter().zip(&bytes).map(|(now, then)| now - then).max();
    Ok(Live {
        score: Score::of(plan, &ends),
        busy,
        nice,
        own,
        busiest: most.unwrap_or(0) as f64 / (plan.rate * span),
        gated: parts.iter().map(|part| part.gate.gated_bytes).sum(),
        problems: parts.iter().map(|part| part.gate.problems).sum(),
        forecast: Forecast::busiest(&doctors.reports()?)?,
    })
}

/// Tells all hosts where the others are and when the run starts, once they are ready.
fn begin(nodes: &mut [Node]) -> anyhow::Result<()> {
    let (mut peers, mut latest) = (serde_json::Map::new(), 0.0_f64);
    for (host, node) in HOSTS.iter().zip(&*nodes) {
        let ready = node.ready()?;
        latest = latest.max(ready["now"].as_f64().context("the process says no time")?);
        peers.insert((*host).to_owned(), ready);
    }
    let start = json!({"peers": peers, "start": latest + LEAD.as_secs_f64()});
    nodes.iter_mut().try_for_each(|node| node.tell(&start))
}

/// Kills the coordinator when half of the requests have arrived.
fn lose(coordinator: Node, plan: &Plan) {
    let middle = plan.requests.get(plan.requests.len() / 2).map_or(0.0, |one| one.arrival);
    std::thread::spawn(move || {
        std::thread::sleep(LEAD + Duration::from_secs_f64(middle));
        drop(coordinator);
    });
}

/// A host's part of a run, as `flow/python/testbed/plan.py` reads it.
fn settings(
    plan: &Plan,
    system: &TestbedSystem,
    network: &Network,
    host: &str,
    coordinator: Option<&str>,
) -> serde_json::Value {
    json!({
        "host": host,
        "addresses": network.addresses(),
        "gate": system.gate,
        "policy": system.policy,
        "coordinator": coordinator,
        "plan": plan,
    })
}

/// When requests ended: with their last byte and the last exchange of their batch.
fn ends(plan: &Plan, parts: &[Part]) -> anyhow::Result<Ends> {
    let mut requests = Vec::new();
    for (nth, request) in plan.requests.iter().enumerate() {
        let part = &parts[request.rank];
        let handed = part.ends.get(&(nth as u32));
        let batch = part.batches.get(request.batch as usize);
        let (handed, batch) = handed.zip(batch).with_context(|| {
            format!(
                "the process of `{}` does not say when request {nth} ended",
                HOSTS[request.rank]
            )
        })?;
        requests.push(handed.max(*batch));
    }
    Ok(Ends { requests, exchanges: parts.iter().flat_map(|part| part.exchanges.clone()).collect() })
}
