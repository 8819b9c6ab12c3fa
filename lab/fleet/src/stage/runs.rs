//! Several runs of one load on one fleet, and perhaps one more in which an engine is killed.
//!
//! Each run has its own seed and its own client; engines and gateways go on. The counts of all parties
//! are compared after the last undisturbed run. A killed engine takes its counts with it, so after that
//! only the client's and the gateway's are compared: between the two no request may be missing.

use std::collections::BTreeMap;
use std::path::PathBuf;

use tokio::time::Instant;

use super::world::{World, status};
use super::{LIMIT, Stage};
use crate::cpu::{Busy, Ticks};
use crate::legs::KV_SCALE;
use crate::load::Load;
use crate::{Client, ClientCounts, Error, Fleet, Report, Result, Scrape, page, total_of};

/// The runs of a stage with one load.
#[derive(Debug, Clone, Default)]
pub struct Runs {
    /// Undisturbed ones, each with its seed; one or more.
    pub seeds: Vec<u64>,
    /// The engine that is killed in the middle of a further run.
    pub kill: Option<usize>,
}

/// A run.
#[derive(Debug)]
pub struct OneRun {
    /// The file with a record of each request.
    pub records: PathBuf,
    /// The client's counts.
    pub counts: ClientCounts,
    /// Its errors by kind.
    pub errors: BTreeMap<String, u64>,
    /// CPU use during the measurement.
    pub busy: Busy,
}

/// The run with a killed engine.
#[derive(Debug)]
pub struct Killed {
    /// The run.
    pub run: OneRun,
    /// Seconds from the start of the load to the kill.
    pub after: f64,
    /// The gateway's page after it.
    pub gateway: Scrape,
}

/// All runs.
#[derive(Debug)]
pub struct PlayedRuns {
    /// The undisturbed ones.
    pub runs: Vec<OneRun>,
    /// The counts of client, gateway and engines after them, and of the legs, as tables.
    pub tables: Vec<String>,
    /// The engines' pages after them.
    pub engines: Vec<Scrape>,
    /// The gateway's page after them.
    pub gateway: Scrape,
    /// The run with a killed engine.
    pub killed: Option<Killed>,
    /// Problems, one sentence each.
    pub faults: Vec<String>,
}

impl Stage {
    /// Starts the fleet and runs its one load several times at its one gateway.
    ///
    /// # Errors
    /// If a process does not start or ends early, or does not come to rest.
    pub async fn play_runs(&self, fleet: &Fleet, runs: &Runs) -> Result<PlayedRuns> {
        let mut world = World::of(self, fleet).await?;
        let client = Client::new();
        world.all_up(self, &client).await?;
        println!("gateway {}/v1   logs {}", world.gateways[0].url, fleet.dir().display());
        let (mut played, mut all) = (Vec::new(), ClientCounts::default());
        for seed in &runs.seeds {
            let (run, _) = self.run(fleet, &mut world, *seed, None).await?;
            all = all + run.counts;
            played.push(run);
        }
        let (counts, mut faults) = world.settle(self, &client, &all).await?;
        faults.extend(counts.disagreements().iter().map(|name| format!("counts of {name} differ")));
        let legs = world.legs(self, &client).await?;
        let tables = vec![page::counts(&counts), page::legs(&legs, KV_SCALE, true)];
        let mut engines = Vec::new();
        for engine in &world.engines {
            engines.push(client.scrape(engine.said(0)).await?);
        }
        let gateway = client.scrape(&world.gateways[0].admin).await?;
        let mut killed = None;
        if let Some(engine) = runs.kill {
            let seed = runs.seeds.last().map_or(1, |last| last.wrapping_add(1));
            let (run, after) = self.run(fleet, &mut world, seed, Some(engine)).await?;
            let all = all + run.counts;
            faults.extend(world.silent(&client, &all).await?);
            let gateway = client.scrape(&world.gateways[0].admin).await?;
            killed = Some(Killed { run, after, gateway });
        }
        for gateway in &mut world.gateways {
            gateway.process.terminate();
        }
        Ok(PlayedRuns { runs: played, tables, engines, gateway, killed, faults })
    }

    /// One run, and when its engine was killed.
    async fn run(
        &self,
        fleet: &Fleet,
        world: &mut World,
        seed: u64,
        kill: Option<usize>,
    ) -> Result<(OneRun, f64)> {
        let name = format!("load-{seed}");
        let records = fleet.dir().join(format!("{name}.records"));
        let mut spec = world.load_spec(self, &self.loads[0], 0, &records);
        spec.args.extend(["--seed".to_owned(), seed.to_string()]);
        let mut load = fleet.load(&name, &spec).await?;
        let start = Instant::now();
        let ids = |world: &World, load: &Load| {
            [world.ids(), load.process.id().into_iter().collect()].concat()
        };
        alive(&mut load, start + self.warmup).await?;
        let before = Ticks::now(ids(world, &load))?;
        let middle = start + self.warmup + self.window / 2;
        if let Some(engine) = kill {
            alive(&mut load, middle).await?;
            world.engines[engine].kill().await?;
        }
        let after = start.elapsed().as_secs_f64();
        alive(&mut load, start + self.warmup + self.window).await?;
        let busy = Ticks::now(ids(world, &load))?.since(before);
        let Report { counts, errors, .. } = load.report(LIMIT).await?;
        Ok((OneRun { records, counts, errors, busy }, after))
    }
}

/// Waits until then, unless the load ends before.
async fn alive(load: &mut Load, until: Instant) -> Result<()> {
    let limit = until.saturating_duration_since(Instant::now());
    match load.process.wait(limit).await {
        Err(Error::TooSlow { .. }) => Ok(()),
        Err(error) => Err(error),
        // It has ended too early, and its report says why.
        Ok(_) => load.report(LIMIT).await.map(|_| ()),
    }
}

impl World {
    /// Requests that are missing between the client and the gateway, one sentence each.
    async fn silent(&self, client: &Client, all: &ClientCounts) -> Result<Vec<String>> {
        let deadline = Instant::now() + super::world::SETTLE;
        loop {
            let status = status(client, &self.gateways[0]).await?;
            let requests = total_of(&[&status]).requests;
            let missing: Vec<String> = [
                ("sent", "accepted", all.sent, requests.accepted),
                ("answered", "done", all.ok, requests.done),
                ("in flight", "in flight", 0, requests.in_flight),
            ]
            .into_iter()
            .filter(|(_, _, ours, theirs)| ours != theirs)
            .map(|(ours, theirs, a, b)| {
                format!("after the kill, the client counts {a} {ours} and the gateway {b} {theirs}")
            })
            .collect();
            if missing.is_empty() || Instant::now() >= deadline {
                return Ok(missing);
            }
            tokio::time::sleep(super::world::TICK).await;
        }
    }
}
