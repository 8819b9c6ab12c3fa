//! One of the two fleets, with the requests that its clients finished.

use std::time::Duration;

use super::finished::{Finished, FinishedFile};
use super::tallied::{Tallied, ended_after};
use crate::total::total;
use crate::up::order::{Act, Order, What};
use crate::up::side_row::SideRow;
use crate::up::verdict::judge_broken;
use crate::up::world::World;
use crate::up::{Options, verdict};
use crate::{Report, Result};

/// A fleet.
pub(super) struct Contender {
    /// As the lines name it.
    pub(super) name: &'static str,
    pub(super) options: Options,
    pub(super) world: World,
    files: Vec<FinishedFile>,
    /// In the order of their ends.
    pub(super) finished: Vec<Finished>,
}

impl Contender {
    /// Starts everything but the clients.
    pub(super) async fn start(name: &'static str, options: Options) -> Result<Contender> {
        let world = World::without_loads(&options).await?;
        let files = world.regions.iter().map(|region| region.finished_requests(&world.fleet));
        let files = files.enumerate().map(|(at, file)| FinishedFile::new(file, at)).collect();
        Ok(Contender { name, options, world, files, finished: Vec::new() })
    }

    /// Reads the newly finished requests.
    pub(super) fn look(&mut self, elapsed: Duration) -> std::result::Result<(), String> {
        self.world.none_died()?;
        self.read(elapsed).map_err(|error| error.to_string())
    }

    /// Shows the state on the fleet's page, with that of both fleets.
    pub(super) async fn show(&mut self, elapsed: Duration, both: [SideRow; 2]) {
        self.world.sides = both.into();
        self.world.show_on_page(&self.options, elapsed).await;
    }

    /// The fleet on its own page, or on the other one's: the measurements of the last `length`.
    pub(super) fn side(&self, here: bool, now: Duration, length: Duration) -> SideRow {
        let window = self.window(now, length);
        SideRow {
            name: self.name,
            here,
            page: format!("http://{}", self.world.board.address),
            ttft_p50_ms: window.p50,
            ttft_p90_ms: window.p90,
            ttft_p99_ms: window.p99,
            answers_per_s: window.rate(length.min(now)),
            cached: window.cached,
            running: self.running(),
        }
    }

    fn read(&mut self, elapsed: Duration) -> Result<()> {
        self.files.iter_mut().try_for_each(|file| file.read(elapsed, &mut self.finished))
    }

    /// The measurements of the last `length`.
    pub(super) fn window(&self, now: Duration, length: Duration) -> Tallied {
        // All requests have ended after less than zero.
        match now.checked_sub(length) {
            Some(since) => Tallied::of(ended_after(&self.finished, since)),
            None => Tallied::of(&self.finished),
        }
    }

    /// The measurements of the whole run, of the clients of one region or of all.
    pub(super) fn run(&self, region: Option<usize>) -> Tallied {
        let of = |request: &&Finished| region.is_none_or(|region| request.region == region);
        Tallied::of(self.finished.iter().filter(of))
    }

    /// Requests in flight at the clients.
    pub(super) fn running(&self) -> u64 {
        let loads = self.world.regions.iter().filter_map(|region| region.load.as_ref());
        loads.filter_map(|load| Some(load.live()?.in_flight)).sum()
    }

    /// Kills a replica.
    pub(super) async fn kill(&mut self, replica: &str, elapsed: Duration) -> Result<()> {
        let order = Order { act: Act::Kill, what: What::Replica, name: replica.to_owned() };
        self.world.order(&self.options, elapsed, &order).await
    }

    /// Requests that continued elsewhere because their replica failed: repeated before the first byte
    /// of the answer, resumed after it.
    pub(super) async fn moved(&self) -> Result<u64> {
        let mut moved = 0;
        for region in &self.world.regions {
            let Some(gateway) = region.answering() else { continue };
            let page = self.world.client.scrape(&gateway.admin).await?;
            let count = |metric: &str, label: &str| page.count_with(metric, &[label]).unwrap_or(0);
            moved += count("meridian_retries_total", "reason=\"replica_failed\"")
                + count("meridian_retries_total", "reason=\"replica_unreachable\"")
                + count("meridian_resumes_total", "outcome=\"went_on\"");
        }
        Ok(moved)
    }

    /// Ends the clients and compares their counts with the gateways'. Returns the requests that moved.
    pub(super) async fn audit(&mut self, elapsed: Duration, faults: &mut Vec<String>) -> u64 {
        let reports = self.world.stop_loads(faults).await;
        let mut found = Vec::new();
        let moved = match self.compared(elapsed, &reports, &mut found).await {
            Ok(moved) => moved,
            Err(error) => {
                found.push(error.to_string());
                0
            }
        };
        faults.extend(found.into_iter().map(|fault| format!("{}: {fault}", self.name)));
        moved
    }

    async fn compared(
        &mut self,
        elapsed: Duration,
        reports: &[Option<Report>],
        faults: &mut Vec<String>,
    ) -> Result<u64> {
        let (seen, counts, _) = self.world.settle(reports).await?;
        judge_broken(&total(&seen), reports, faults);
        // Tokens and engines are left out: the killed engine took its counts with it.
        for row in counts.of_requests().disagreements() {
            faults.push(format!("clients and gateways count {row} differently"));
        }
        self.read(elapsed)?;
        let sent = verdict::clients(reports).map_or(0, |counts| counts.sent);
        if sent != self.finished.len() as u64 {
            let ended = self.finished.len();
            faults
                .push(format!("{ended} requests are in the lines above, and clients sent {sent}"));
        }
        self.moved().await
    }
}
