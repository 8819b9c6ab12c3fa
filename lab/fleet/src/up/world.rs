//! All regions while they run: starts, watches, settles and drains them.
//!
//! Their connections and routes are in `arrange.rs`.

use std::time::Duration;

use meridian_protocol::admin::Role;
use tokio::time::Instant;

use super::acts::end;
use super::arrange::{self, Shared};
use super::board::{Board, BoardAsked};
use super::hours::Hours;
use super::order::Order;
use super::paths::Paths;
use super::planes::Planes;
use super::record::Record;
use super::region::{Region, still_runs};
use super::side_row::SideRow;
use super::start::Maker;
use super::stop::Stop;
use super::tenants;
use super::{DRAIN, Demand, Engines, Options, SETTLE, TICK, WITHOUT_END};
use crate::legs::{KV_SCALE, LegCounts};
use crate::page::{Screen, Seen};
use crate::total::total;
use crate::{Client, Counts, Distance, EngineCounts, Fleet, Process, Report, Result};

/// All running processes.
pub(super) struct World {
    // Dropped in this order.
    pub(super) regions: Vec<Region>,
    /// The control planes; none in runs without any.
    pub(super) planes: Option<Planes>,
    pub(super) distance: Option<Distance>,
    /// None unless the run relays KV.
    pub(super) paths: Option<Paths>,
    /// None unless the run keeps records.
    pub(super) record: Option<Record>,
    pub(super) fleet: Fleet,
    pub(super) client: Client,
    pub(super) maker: Maker,
    pub(super) board: Board,
    /// Faults and repairs, newest first.
    pub(super) orders: Vec<String>,
    /// This fleet and another one with the same clients; none in most runs.
    pub(super) sides: Vec<SideRow>,
    /// The last hour of the regions.
    pub(super) hours: Hours,
    /// How long the loads ran.
    pub(super) watched: Duration,
}

impl World {
    /// Starts everything, the loads last.
    pub(super) async fn start(options: &Options) -> Result<World> {
        let mut world = World::without_loads(options).await?;
        world.start_loads(options).await?;
        Ok(world)
    }

    /// Starts everything but the loads, and waits until all gateways are ready.
    pub(super) async fn without_loads(options: &Options) -> Result<World> {
        let mut fleet = match &options.binary {
            Some(binary) => Fleet::new(binary)?,
            None => Fleet::of_this_program()?,
        };
        if let Some(library) = &options.clocks {
            fleet.fake_clocks(library);
        }
        let record = match &options.record {
            Some(dir) => Some(Record::start(dir).await?),
            None => None,
        };
        let maker = Maker::new(options).await?;
        let paths = Paths::start(&fleet, options).await?;
        let mut regions = Vec::new();
        for at in 0..options.regions.len() {
            let region = Region::without_gateway(&fleet, &maker, options, paths.as_ref(), at);
            regions.push(region.await?);
        }
        regions.extend(Region::further_gateways(options));
        let shared = match regions.len() {
            1 => None,
            _ => Some(Shared::start(&fleet, options, &regions).await?),
        };
        for at in 0..regions.len() {
            regions[at].spec = arrange::gateway(options, shared.as_ref(), &regions, at);
            let Region { name, spec, .. } = &mut regions[at];
            if let (Some(spec), Some(record)) = (spec, &record) {
                spec.further.push_str(&record.config(name));
            }
            if regions[at].spec.is_some() {
                regions[at].first_gateway(&fleet).await?;
            }
        }
        let (planes, distance) = match shared {
            None => (None, None),
            Some(Shared { planes, distance, .. }) => (planes, Some(distance)),
        };
        let world = World {
            regions,
            planes,
            distance,
            paths,
            record,
            fleet,
            client: Client::new(),
            maker,
            board: Board::start().await?,
            orders: Vec::new(),
            sides: Vec::new(),
            hours: Hours::default(),
            watched: Duration::ZERO,
        };
        world.set_routes().await?;
        world.all_up().await?;
        Ok(world)
    }

    pub(super) fn announce(&self, options: &Options) {
        let kind = match options.engines {
            Engines::Model => "model engines, Llama-3.1-8B on L4 each",
            Engines::LlamaCpp => "llama.cpp servers with a tiny random model each",
        };
        match &options.regions[..] {
            [_] => println!("a region of {} replicas: {kind}", self.regions[0].replicas.len()),
            all => println!("{} regions of {} replicas: {kind}", all.len(), options.replicas),
        }
        for region in &self.regions {
            if self.regions.len() > 1 {
                println!("{}", region.name);
            }
            if let Some(pools) = options.pools.as_ref().filter(|pools| pools.region == region.name)
            {
                println!("  pools    {} prefill, {} decode", pools.prefill, pools.decode);
            }
            let Some(spec) = &region.spec else { continue };
            println!("  gateway  http://{}/v1", spec.listen);
            println!("  admin    http://{}/admin/status", spec.admin);
        }
        if let Some(distance) = &self.distance {
            println!("shared");
            if let Some((urls, control)) =
                self.planes.as_ref().and_then(|p| Some((p.urls(0), p.living()?)))
            {
                let files = control.shown().into_iter();
                let flags: String =
                    files.map(|(flag, value)| format!(" --{flag} {value}")).collect();
                println!("  control  meridian replicas list --control {}{flags}", urls.join(","));
            }
            println!("  wan      {}/admin/wan", distance.admin);
        }
        if tenants::are_there(options) {
            println!("  key      {}", tenants::VISITORS);
        }
        println!("  page     http://{}", self.board.address);
        println!("  logs     {}", self.fleet.dir().display());
        if options.duration.is_none() {
            println!("  stop it with Ctrl-C");
        }
    }

    /// Sets the targets of the routes.
    pub(super) async fn set_routes(&self) -> Result<()> {
        let Some(distance) = &self.distance else { return Ok(()) };
        for (route, target) in arrange::at_the_ends(&self.regions) {
            distance.leads_to(&route, target).await?;
        }
        Ok(())
    }

    /// Waits until each gateway has found its replicas and its peers.
    pub(super) async fn all_up(&self) -> Result<()> {
        let deadline = Instant::now() + DRAIN;
        for region in self.regions.iter().filter(|region| region.spec.is_some()) {
            let registered = &self.regions[region.number].replicas;
            let is_up = |status| region.is_up(&status, registered);
            while !region.status(&self.client).await?.is_some_and(is_up) {
                if Instant::now() > deadline {
                    return Err(region.too_slow(DRAIN));
                }
                tokio::time::sleep(TICK / 5).await;
            }
        }
        Ok(())
    }

    pub(super) async fn start_loads(&mut self, options: &Options) -> Result<()> {
        if options.demand == Demand::None {
            return Ok(());
        }
        for at in 0..options.regions.len() {
            let addresses = arrange::addresses(&self.regions, self.distance.as_ref(), at);
            self.regions[at].start_load(&self.fleet, options, &addresses).await?;
        }
        Ok(())
    }

    /// The current state of every region.
    pub(super) async fn look(&self) -> Vec<Seen> {
        let mut seen = Vec::new();
        for region in &self.regions {
            seen.push(region.look(&self.client).await);
        }
        seen
    }

    /// Shows the regions until the time is over or a stop is requested; an error also ends it.
    pub(super) async fn watch(
        &mut self,
        options: &Options,
        stop: &mut Stop,
    ) -> std::result::Result<(), String> {
        let start = Instant::now();
        let end = start + options.duration.unwrap_or(WITHOUT_END);
        let mut screen = Screen::new();
        let mut ticks = tokio::time::interval(TICK);
        loop {
            let asked = tokio::select! {
                () = stop.asked() => return Ok(()),
                () = tokio::time::sleep_until(end) => return Ok(()),
                asked = self.board.orders.recv() => asked,
                _ = ticks.tick() => None,
            };
            if let Some(asked) = asked {
                self.answer_page(options, start.elapsed(), asked).await;
            }
            self.none_died()?;
            let seen = self.show_on_page(options, start.elapsed()).await;
            screen.show(self.watched, &seen);
        }
    }

    /// Reads the state of every region, and shows it on the page.
    pub(super) async fn show_on_page(&mut self, options: &Options, elapsed: Duration) -> Vec<Seen> {
        let seen = self.look().await;
        self.watched = elapsed;
        let state = self.state(elapsed, options, &seen).await;
        self.board.state.send_replace(state);
        seen
    }

    /// Performs a page's order, and reports the outcome.
    pub(super) async fn answer_page(
        &mut self,
        options: &Options,
        elapsed: Duration,
        (order, reply): BoardAsked,
    ) {
        let outcome = self.order(options, elapsed, &order).await;
        // The page may have been closed meanwhile.
        let _ = reply.send(outcome.map_err(|error| error.to_string()));
    }

    /// Performs an order, and notes it.
    pub(super) async fn order(
        &mut self,
        options: &Options,
        elapsed: Duration,
        order: &Order,
    ) -> Result<()> {
        self.obey(options, order).await?;
        self.orders.insert(0, format!("{:.0} s: {order}", elapsed.as_secs_f64()));
        Ok(())
    }

    pub(super) fn none_died(&mut self) -> std::result::Result<(), String> {
        for region in &mut self.regions {
            region.none_died()?;
        }
        self.shared().into_iter().try_for_each(still_runs)
    }

    /// Resumes everything that is suspended, so it can answer the following requests.
    pub(super) fn go_on(&mut self) {
        for region in &mut self.regions {
            let gateway = region.gateway.as_mut().map(|gateway| &mut gateway.process);
            let replicas = region.replicas.iter_mut().filter_map(|r| r.process.as_mut());
            replicas.chain(gateway).filter(|p| p.is_stopped()).for_each(Process::go_on);
        }
        self.shared().into_iter().filter(|p| p.is_stopped()).for_each(Process::go_on);
    }

    /// The processes that belong to no region.
    fn shared(&mut self) -> Vec<&mut Process> {
        let planes = self.planes.iter_mut().flat_map(Planes::processes);
        planes.chain(relays(self.distance.as_mut(), self.paths.as_mut())).collect()
    }

    /// Ends the loads, and waits for their requests in flight.
    pub(super) async fn stop_loads(&mut self, faults: &mut Vec<String>) -> Vec<Option<Report>> {
        for load in self.regions.iter_mut().filter_map(|region| region.load.as_mut()) {
            load.process.terminate();
        }
        let mut reports = Vec::new();
        for region in &mut self.regions {
            let report = match &mut region.load {
                Some(load) => load.report(DRAIN + SETTLE).await.map(Some),
                None => Ok(None),
            };
            reports.push(report.unwrap_or_else(|error| {
                faults.push(error.to_string());
                None
            }));
        }
        reports
    }

    /// Reads the counts once they are at rest: nothing in flight, and no difference because a
    /// counter update is still on its way. After a bounded wait, remaining differences are reported
    /// as they are.
    pub(super) async fn settle(
        &self,
        reports: &[Option<Report>],
    ) -> Result<(Vec<Seen>, Counts, Option<LegCounts>)> {
        let replicas = self.regions.iter().flat_map(|region| &region.replicas);
        let answering = replicas.filter(|r| r.answers() && r.role != Role::Prefill);
        let urls: Vec<&str> = answering.map(|r| r.url.as_str()).collect();
        let client = super::verdict::clients(reports);
        let give_up = Instant::now() + DRAIN;
        let mut idle_since = None;
        loop {
            let seen = self.look().await;
            let all = total(&seen);
            let mut engines = EngineCounts::ask(&self.client, &urls).await?;
            let legs = self.legs().await?;
            engines.cached_tokens = engines.cached_tokens.filter(|_| legs.is_none());
            let counts = Counts::new(client.as_ref(), &all, &engines);
            let now = Instant::now();
            let faulty = |legs: &LegCounts| !legs.faults(KV_SCALE).is_empty();
            let idle = all.requests.in_flight == 0 && engines.outstanding == 0;
            if idle {
                idle_since.get_or_insert(now);
            }
            let late = now >= idle_since.map_or(give_up, |since| since + SETTLE);
            // A killed process took its counts with it, and engines are killed most.
            let judged = if self.orders.is_empty() { counts.clone() } else { counts.of_requests() };
            let agree = judged.disagreements().is_empty() && !legs.as_ref().is_some_and(faulty);
            if (idle && agree) || late {
                return Ok((seen, counts, legs));
            }
            tokio::time::sleep(TICK / 5).await;
        }
    }

    /// The counts of requests with two legs, of the processes that answer; none without pools.
    pub(super) async fn legs(&self) -> Result<Option<LegCounts>> {
        let replicas = || self.regions.iter().flat_map(|region| &region.replicas);
        if replicas().all(|replica| replica.role == Role::Both) {
            return Ok(None);
        }
        let mut legs = LegCounts::default();
        for gateway in self.regions.iter().filter_map(Region::answering) {
            legs.add_gateway(&self.client.scrape(&gateway.admin).await?);
        }
        for replica in replicas().filter(|replica| replica.answers()) {
            let page = self.client.scrape(&replica.url).await?;
            legs.add_engine(&page, replica.role == Role::Prefill);
        }
        Ok(Some(legs))
    }

    /// Ends gateways, control planes and relay as an operator would; they must end properly.
    pub(super) async fn drain(&mut self, faults: &mut Vec<String>) {
        let gateways = self.regions.iter_mut().filter_map(|region| region.gateway.as_mut());
        let mut ends = Vec::new();
        for gateway in gateways {
            ends.push(end(&mut gateway.process).await);
        }
        if let Some(planes) = &mut self.planes {
            ends.extend(planes.drain().await);
        }
        for process in relays(self.distance.as_mut(), self.paths.as_mut()) {
            ends.push(end(process).await);
        }
        faults.extend(ends.into_iter().filter_map(|end| end.err().map(|error| error.to_string())));
    }
}

fn relays<'a>(
    distance: Option<&'a mut Distance>,
    paths: Option<&'a mut Paths>,
) -> impl Iterator<Item = &'a mut Process> {
    let distance = distance.map(|distance| &mut distance.process);
    distance.into_iter().chain(paths.map(|paths| &mut paths.relay.process))
}
