//! The region while it is up: started, watched, brought to rest, drained.

use std::time::Duration;

use meridian_wire::admin::Status;
use tokio::time::Instant;

use super::start::{engines, load_args, usual_or_any};
use super::stop::Stop;
use super::{DRAIN, Demand, Engines, Options, SETTLE, TICK, WITHOUT_END};
use crate::load::Load;
use crate::page::Screen;
use crate::{
    Client, Counts, EngineCounts, Error, Fleet, Gateway, GatewaySpec, LoadSpec, Process, Report,
    Result,
};

/// The region while it is up.
pub(super) struct Region {
    // In this order they are dropped.
    load: Option<Load>,
    gateway: Gateway,
    engines: Vec<Process>,
    pub(super) fleet: Fleet,
    client: Client,
}

impl Region {
    pub(super) async fn start(options: &Options) -> Result<Region> {
        let fleet = match &options.binary {
            Some(binary) => Fleet::new(binary)?,
            None => Fleet::of_this_program()?,
        };
        let engines = engines(&fleet, options).await?;
        let spec = GatewaySpec {
            policy: options.policy.clone(),
            listen: usual_or_any(),
            replicas: engines.iter().map(|engine| engine.said(0).to_owned()).collect(),
            ..GatewaySpec::default()
        };
        let gateway = fleet.gateway("gateway", &spec).await?;
        let mut region = Region { load: None, gateway, engines, fleet, client: Client::new() };
        region.all_up().await?;
        if options.demand != Demand::None {
            let spec = LoadSpec {
                url: region.gateway.url.clone(),
                duration: WITHOUT_END,
                args: load_args(options),
            };
            region.load = Some(region.fleet.load("load", &spec).await?);
        }
        Ok(region)
    }

    pub(super) fn announce(&self, options: &Options) {
        let kind = match options.engines {
            Engines::Model => "model engines, Llama-3.1-8B on L4 each",
            Engines::LlamaCpp => "llama.cpp servers with a tiny random model each",
        };
        println!("a region of {} replicas: {kind}", self.engines.len());
        println!("  gateway  {}/v1", self.gateway.url);
        println!("  admin    {}/admin/status", self.gateway.admin);
        println!("  logs     {}", self.fleet.dir().display());
        if options.duration.is_none() {
            println!("  Ctrl-C ends it");
        }
    }

    async fn status(&self) -> Result<Status> {
        self.client.json(&format!("{}/admin/status", self.gateway.admin)).await
    }

    /// Waits until the gateway has found every replica answering.
    async fn all_up(&self) -> Result<()> {
        let deadline = Instant::now() + DRAIN;
        loop {
            let status = self.status().await?;
            let up = status.replicas.iter().filter(|replica| replica.state == "up").count();
            if up == self.engines.len() {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(Error::TooSlow {
                    name: "gateway".into(),
                    what: format!("find {} of {} replicas up", self.engines.len() - up, up),
                    limit: DRAIN,
                    log: self.gateway.process.log_tail(),
                });
            }
            tokio::time::sleep(TICK / 5).await;
        }
    }

    /// Shows the region until the time is over or somebody asks to stop; an error ends it too.
    pub(super) async fn watch(
        &mut self,
        duration: Option<Duration>,
        stop: &mut Stop,
    ) -> std::result::Result<(), String> {
        let start = Instant::now();
        let end = start + duration.unwrap_or(WITHOUT_END);
        let mut screen = Screen::new();
        let mut ticks = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                () = stop.asked() => return Ok(()),
                () = tokio::time::sleep_until(end) => return Ok(()),
                _ = ticks.tick() => {}
            }
            self.nobody_died()?;
            let status = self.status().await.map_err(|error| error.to_string())?;
            let live = self.load.as_ref().and_then(Load::live);
            screen.show(start.elapsed(), &status, live.as_ref());
        }
    }

    fn nobody_died(&mut self) -> std::result::Result<(), String> {
        let load = self.load.as_mut().map(|load| &mut load.process);
        for process in self.engines.iter_mut().chain([&mut self.gateway.process]).chain(load) {
            if let Some(status) = process.ended() {
                let (name, log) = (process.name(), process.log_tail());
                return Err(format!("{name} ended with {status} in mid-run\n{log}"));
            }
        }
        Ok(())
    }

    /// Asks the load to end, and waits until its requests in flight have.
    pub(super) async fn stop_load(&mut self, faults: &mut Vec<String>) -> Option<Report> {
        let load = self.load.as_mut()?;
        load.process.terminate();
        match load.report(DRAIN + SETTLE).await {
            Ok(report) => Some(report),
            Err(error) => {
                faults.push(error.to_string());
                None
            }
        }
    }

    /// Reads the counts once they are at rest: nothing in flight, and nothing that still differs
    /// because a counter is on its way. What differs at the end of a bounded wait, differs.
    pub(super) async fn settle(&self, report: Option<&Report>) -> Result<(Status, Counts)> {
        let urls: Vec<&str> = self.engines.iter().map(|engine| engine.said(0)).collect();
        let give_up = Instant::now() + DRAIN;
        let mut idle_since = None;
        loop {
            let status = self.status().await?;
            let engines = EngineCounts::ask(&self.client, &urls).await?;
            let counts = Counts::new(report.map(|report| &report.counts), &status, &engines);
            let now = Instant::now();
            let idle = status.requests.in_flight == 0 && engines.outstanding == 0;
            if idle {
                idle_since.get_or_insert(now);
            }
            let late = now >= idle_since.map_or(give_up, |since| since + SETTLE);
            if (idle && counts.disagreements().is_empty()) || late {
                return Ok((status, counts));
            }
            tokio::time::sleep(TICK / 5).await;
        }
    }

    /// Ends the gateway as an operator would; it must end in good order.
    pub(super) async fn drain(&mut self, faults: &mut Vec<String>) {
        let gateway = &mut self.gateway.process;
        gateway.terminate();
        match gateway.wait(DRAIN).await {
            Ok(status) if status.success() => {}
            Ok(status) => {
                let log = gateway.log_tail();
                faults.push(format!("the gateway ended with {status} on SIGTERM\n{log}"));
            }
            Err(error) => faults.push(error.to_string()),
        }
    }
}
