//! `meridian demo`: two fleets under the same load side by side, and a replica that is killed in both.
//!
//! One fleet has Meridian's policy and forwards requests between regions. The other has round robin in
//! each region. Everything else is the same: gateways, engines, distances, clients and their seed. So
//! the figures show the routing alone, and both fleets repeat or resume what a dead replica leaves
//! unfinished. The fleets share the machine's cores, so they wait for each other.

mod contender;
mod finished;
mod lines;
mod tallied;

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use tokio::time::Instant;

use super::stop::Stop;
use super::{Demand, Options, Verdict};
use crate::cpu::Ticks;
use crate::{Error, Result};
use contender::Contender;
pub use lines::wrapped;
use lines::{after_kill, behind, block_head, of_run, of_window, summary_head, title};

/// The names of both fleets.
const NAMES: [&str; 2] = ["Meridian", "round robin per region"];
/// Replicas in each region.
const REPLICAS: u32 = 3;
/// Speed of the model engines. In real time, a first look would show the first answers.
const SPEED: f64 = 4.0;
/// Share of the clients that is active at the quietest time of their day.
const NIGHT: f64 = 0.2;
/// Clients start within this time.
const RAMP: Duration = Duration::from_secs(5);
/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// Time between two blocks.
const BLOCK: Duration = Duration::from_secs(5);
/// Blocks show the requests that ended in this time.
const WINDOW: Duration = Duration::from_secs(10);
/// A replica is killed then, or after half of a shorter run.
const KILL: Duration = Duration::from_secs(30);
/// The sentence about a kill waits for the requests of the dead replica.
const AFTER_KILL: Duration = Duration::from_secs(4);
/// The shortest run that shows something.
const SHORTEST: Duration = Duration::from_secs(10);
/// With less of the machine idle, times include waits for a core.
const BUSY: f64 = 0.25;

/// The settings of a demo.
#[derive(Debug, Clone)]
pub struct DemoOptions {
    /// Seed of both loads.
    pub seed: u64,
    /// How long the clients send requests.
    pub length: Duration,
}

impl DemoOptions {
    /// Checks the length, before anything starts.
    ///
    /// # Errors
    /// If it is too short.
    pub fn check(&self) -> Result<()> {
        if self.length < SHORTEST {
            return Err(Error::Setting {
                field: "--for",
                value: format!("{}s", self.length.as_secs_f64()),
                remedy: "a replica is killed after half of it; use 10s or more".into(),
            });
        }
        Ok(())
    }

    fn kill_at(&self) -> Duration {
        KILL.min(self.length / 2)
    }

    /// The fleets, ours first.
    fn fleets(&self) -> [Options; 2] {
        [("meridian", "two_layer"), ("round_robin", "region_local")].map(|(policy, topology)| {
            Options {
                regions: ["us", "eu", "asia"].map(str::to_owned).into(),
                topology: topology.to_owned(),
                policy: policy.to_owned(),
                replicas: REPLICAS,
                demand: Demand::Demo,
                seed: self.seed,
                ramp: RAMP,
                follow: true,
                resume: true,
                time_scale: SPEED,
                night: NIGHT,
                ..Options::default()
            }
        })
    }
}

/// Runs both fleets, shows them until the end, and returns the result.
///
/// # Errors
/// A length that is too short, and programs that do not start.
pub async fn run(options: &DemoOptions) -> Result<Verdict> {
    options.check()?;
    let mut stop = Stop::new()?;
    let mut sides = tokio::select! {
        sides = start(options) => sides?,
        () = stop.asked() => {
            return Ok(Verdict { faults: vec!["exited before it was ready".into()], broken: false });
        }
    };
    show(&head(options, &sides));
    let before = Ticks::now([])?;
    for side in &mut sides {
        side.world.start_loads(&side.options).await?;
    }
    let mut faults = Vec::new();
    let start = Instant::now();
    let mut course = Course::new(options.kill_at());
    if let Err(fault) = watch(options, &mut sides, start, &mut course, &mut stop).await {
        faults.push(fault);
    }
    let busy = 1.0 - Ticks::now([])?.since(before).idle;
    let length = start.elapsed();
    show("\nThe clients stop. Requests in flight end, then all counts are compared.\n");
    let [ours, other] = &mut sides;
    let (mut of_ours, mut of_other) = (Vec::new(), Vec::new());
    let moved = tokio::join!(ours.audit(length, &mut of_ours), other.audit(length, &mut of_other));
    faults.extend(of_ours.into_iter().chain(of_other));
    show(&summary(options, &sides, (length, course.killed), moved.into(), busy));
    for side in &mut sides {
        side.world.drain(&mut faults).await;
    }
    if !faults.is_empty() {
        for side in &sides {
            side.world.fleet.keep_logs();
            faults.push(format!(
                "{}: the logs are in {}",
                side.name,
                side.world.fleet.dir().display()
            ));
        }
    }
    let broken = sides.iter().any(|side| !side.world.orders.is_empty());
    Ok(Verdict { faults, broken })
}

async fn start(options: &DemoOptions) -> Result<[Contender; 2]> {
    let [ours, other] = options.fleets();
    let (ours, other) =
        tokio::try_join!(Contender::start(NAMES[0], ours), Contender::start(NAMES[1], other))?;
    Ok([ours, other])
}

/// Shows blocks and the kill until the time is over or a stop is requested; an error also ends it.
async fn watch(
    options: &DemoOptions,
    sides: &mut [Contender; 2],
    start: Instant,
    course: &mut Course,
    stop: &mut Stop,
) -> std::result::Result<(), String> {
    let mut looks = tokio::time::interval(LOOK);
    loop {
        let [ours, other] = sides;
        let asked = tokio::select! {
            () = stop.asked() => return Ok(()),
            () = tokio::time::sleep_until(start + options.length) => return Ok(()),
            asked = ours.world.board.orders.recv() => asked.map(|asked| (0, asked)),
            asked = other.world.board.orders.recv() => asked.map(|asked| (1, asked)),
            _ = looks.tick() => None,
        };
        let elapsed = start.elapsed();
        if let Some((at, asked)) = asked {
            let Contender { world, options, .. } = &mut sides[at];
            world.answer_page(options, elapsed, asked).await;
        }
        sides.iter_mut().try_for_each(|side| side.look(elapsed))?;
        let [ours, other] = sides;
        let rows = |here| [ours.side(here, elapsed, WINDOW), other.side(!here, elapsed, WINDOW)];
        let (of_ours, of_other) = (rows(true), rows(false));
        ours.show(elapsed, of_ours).await;
        other.show(elapsed, of_other).await;
        course.go_on(sides, elapsed).await.map_err(|error| error.to_string())?;
    }
}

/// What the watch still has to do.
struct Course {
    /// When the next block is due.
    next: Duration,
    kill_at: Duration,
    killed: Option<Duration>,
    /// Whether the result of the kill was told.
    told: bool,
}

impl Course {
    fn new(kill_at: Duration) -> Course {
        Course { next: BLOCK, kill_at, killed: None, told: false }
    }

    async fn go_on(&mut self, sides: &mut [Contender; 2], elapsed: Duration) -> Result<()> {
        if self.killed.is_none() && elapsed >= self.kill_at {
            let replica = victim(&sides[0].options);
            for side in sides.iter_mut() {
                side.kill(&replica, elapsed).await?;
            }
            self.killed = Some(elapsed);
            show(&format!("{:>4.0} s killed {replica} in both fleets\n", elapsed.as_secs_f64()));
        }
        if !self.told && self.killed.is_some_and(|killed| elapsed >= killed + AFTER_KILL) {
            self.told = true;
            show(&told(sides, elapsed).await?);
        }
        if elapsed >= self.next {
            self.next += BLOCK;
            show(&block(sides, elapsed));
        }
        Ok(())
    }
}

/// The replica that is killed: the last one of the first region.
fn victim(options: &Options) -> String {
    options.replica_name(0, options.replicas as usize - 1)
}

async fn told(sides: &[Contender; 2], elapsed: Duration) -> Result<String> {
    let mut text = format!("{:>4.0} s since then\n", elapsed.as_secs_f64());
    for side in sides {
        let (run, moved) = (side.run(None), side.moved().await?);
        let _ =
            writeln!(text, "{}", after_kill(side.name, run.lost, run.answers + run.lost, moved));
    }
    Ok(text)
}

fn block(sides: &[Contender; 2], elapsed: Duration) -> String {
    let mut text = String::new();
    for (at, side) in sides.iter().enumerate() {
        let (window, length) = (side.window(elapsed, WINDOW), WINDOW.min(elapsed));
        let time = (at == 0).then_some(elapsed);
        let line = of_window(time, side.name, &window, length, side.running());
        let _ = writeln!(text, "{line}");
    }
    text
}

fn head(options: &DemoOptions, sides: &[Contender; 2]) -> String {
    let pages = [&sides[0], &sides[1]].map(|side| side.world.board.address.to_string());
    format!("{}\n{}\n", lines::head(options.seed, (REPLICAS, SPEED), &pages), block_head())
}

fn summary(
    options: &DemoOptions,
    sides: &[Contender; 2],
    (length, killed): (Duration, Option<Duration>),
    moved: [u64; 2],
    busy: f64,
) -> String {
    let killed = killed.map(|at| (victim(&sides[0].options), at));
    let title = title(length, REPLICAS, killed);
    let mut text = format!("\n{title}\n{}\n", summary_head());
    for (side, moved) in sides.iter().zip(moved) {
        let _ = writeln!(text, "{}", of_run(side.name, &side.run(None), moved));
    }
    let place = |region: Option<usize>| {
        let name = region.map_or("all regions", |at| &sides[0].options.regions[at]);
        (name.to_owned(), sides[0].run(region), sides[1].run(region))
    };
    let regions = (0..sides[0].options.regions.len()).map(Some);
    let places: Vec<_> = std::iter::once(None).chain(regions).map(place).collect();
    let ahead = behind(&places);
    let _ = match ahead.is_empty() {
        true => writeln!(text, "Round robin was ahead in no region."),
        false => writeln!(text, "Round robin was ahead in:\n{}", ahead.join("\n")),
    };
    if busy > 1.0 - BUSY {
        let busy = wrapped(&format!(
            "The machine's cores were {:.0} % busy: times include waits for a core.",
            busy * 100.0
        ));
        let _ = writeln!(text, "{busy}");
    }
    let seconds = options.length.as_secs_f64();
    let _ =
        writeln!(text, "Repeat it with: meridian demo --seed {} --for {seconds}s", options.seed);
    text
}

fn show(text: &str) {
    let mut out = std::io::stdout().lock();
    // The reader of the output may be gone; the run continues.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    // A run that is too short to show a kill is refused with the remedy; in a short one the kill
    // comes earlier.
    #[test]
    fn the_kill_fits_into_the_run() {
        let of = |seconds| DemoOptions { seed: 1, length: Duration::from_secs(seconds) };
        let refused = of(5).check().expect_err("is too short").to_string();
        assert_eq!(refused, "--for 5s: a replica is killed after half of it; use 10s or more");
        assert_eq!([10, 60, 600].map(|s| of(s).kill_at().as_secs()), [5, 30, 30]);
    }

    // Both fleets have the same clients and replicas.
    #[test]
    fn the_fleets_differ_in_routing_only() {
        let [ours, other] = DemoOptions { seed: 7, length: KILL }.fleets();
        let (policy, topology) = (ours.policy.clone(), ours.topology.clone());
        let same = Options { policy, topology, ..other.clone() };
        assert_eq!(format!("{same:?}"), format!("{ours:?}"));
        assert_ne!(ours.policy, other.policy);
        assert_eq!(victim(&ours), "us-engine-2");
    }
}
