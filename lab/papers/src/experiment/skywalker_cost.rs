//! SkyWalker's Figure 3: the saving from provisioning for the sum of the regions instead of each
//! region's own peak, and the cost of on-demand autoscaling.
//!
//! The paper's figure is arithmetic on the load by the hour. It is compared with a simulated day,
//! in which replicas are indivisible, requests take time, and an autoscaler waits for new replicas.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use meridian_sim::{Autoscaler, Hardware, Load, Report, Scenario, Source};
use meridian_tools::metric::Run;
use meridian_tools::plot::{self, Figure, Point};
use meridian_workload::{Diurnal, Generator, Poisson, open_loop};

use super::plan::{Cell, Feed, Plan};
use super::skywalker_load::{by_hour, peak_to_trough};
use super::values::{Row, Values};
use super::{Context, Findings, build, params};

/// USD an hour of eight H100s (section 2.1): on demand, and reserved for three years.
const ON_DEMAND: f64 = 98.32;
const RESERVED: f64 = 37.56;
/// The saving of owning over reserving them.
const ON_PREMISES_SAVES: f64 = 0.463;

/// Minutes of a real day from ordering a replica to having it.
const DELAYS_MIN: [u64; 3] = [0, 5, 15];
/// Rates tried in the search for a replica's capacity, hundredths of a request a second.
const RATES: [u32; 16] = [4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 35, 40];

/// The experiment.
///
/// # Errors
/// If the file is invalid, or a plot can't be drawn.
pub(crate) fn run(context: &Context<'_>) -> anyhow::Result<Findings> {
    let plan = Plan::new(&context.spec, context.quick)?;
    let day = Day::new(Diurnal::published());
    let mut rows = day.rows();
    let loads = load_figure(&day)?;
    let fleet = SkywalkerCostFleet::measure(context, &plan, day)?;
    rows.push(
        Row::new("", "day", "")
            .with("mean_rps", [fleet.mean_rps])
            .with("replica_rps", [fleet.capacity])
            .with("replica_outstanding", [fleet.outstanding]),
    );
    let days = fleet.days(context, &plan)?;
    let violations = days.iter().flat_map(|(_, broken)| broken.clone()).collect();
    rows.extend(days.into_iter().map(|(row, _)| row));
    let mut found = Findings::computed(&context.spec, Values { rows }, params::hash(&plan)?)?;
    found.figures.push(loads);
    found.violations = violations;
    Ok(found)
}

/// The load by the hour, as shares of the mean of all regions.
struct Day {
    profile: Diurnal,
    regions: Vec<Vec<f64>>,
    total: Vec<f64>,
}

impl Day {
    fn new(profile: Diurnal) -> Day {
        let regions =
            (0..profile.regions.len()).map(|r| by_hour(|hour| profile.rate(r, hour))).collect();
        let total = by_hour(|hour| profile.total(hour));
        Day { profile, regions, total }
    }

    fn sum_of_peaks(&self) -> f64 {
        self.regions.iter().map(|hours| peak(hours)).sum()
    }

    /// The regions' days, and each way of provisioning with its cost, in units of a divisible replica
    /// at the mean load.
    fn rows(&self) -> Vec<Row> {
        let on_premises = RESERVED * (1.0 - ON_PREMISES_SAVES);
        let (apart, together) = (self.sum_of_peaks(), peak(&self.total));
        let mean = self.total.iter().sum::<f64>() / self.total.len() as f64;
        let regions = self.profile.regions.iter().map(|region| region.name).zip(&self.regions);
        let all = regions.chain([("all", &self.total)]);
        let days = all.map(|(name, hours)| {
            Row::new("", name, "").with("peak_to_trough", [peak_to_trough(hours)])
        });
        let costs = [
            ("reserved, each region for its own peak", apart * RESERVED),
            ("reserved, for the peak of all together", together * RESERVED),
            ("on-premises, each region for its own peak", apart * on_premises),
            ("on-premises, for the peak of all together", together * on_premises),
            ("on demand, perfect autoscaling", mean * ON_DEMAND),
        ];
        let cost = |(name, usd)| Row::new(name, "day", "divisible replicas").with("usd", [usd]);
        days.chain(costs.map(cost)).collect()
    }
}

fn peak(hours: &[f64]) -> f64 {
    hours.iter().copied().fold(0.0, f64::max)
}

fn load_figure(day: &Day) -> anyhow::Result<Figure> {
    let line = |name: &str, hours: &[f64]| {
        let point =
            |(hour, v): (usize, &f64)| Point { x: hour as f64, mean: *v, low: *v, high: *v };
        (name.to_owned(), hours.iter().enumerate().map(point).collect())
    };
    let mut lines: Vec<plot::Line> =
        day.profile.regions.iter().zip(&day.regions).map(|(r, h)| line(r.name, h)).collect();
    lines.push(line("all", &day.total));
    let title = "Load by hour (UTC), relative to the mean of all".to_owned();
    let svg = plot::lines(&title, ["hour (UTC)", "load"], &lines, false)?;
    Ok(Figure::new(&["load"], title, svg))
}

/// Replicas that serve one region when a replica's capacity is measured. A single one would be
/// judged by the few longest prompts that happen to reach it.
const TOGETHER_IN_TRIAL: u32 = 4;

/// A replica's figures for the simulated day.
struct SkywalkerCostFleet {
    day: Day,
    hardware: Hardware,
    generator: Arc<dyn Generator>,
    /// Requests a second that one replica answers within the objective.
    capacity: f64,
    /// Requests it has outstanding then, on average.
    outstanding: f64,
    /// Requests a second over all regions in the mean of the day.
    mean_rps: f64,
    /// The run's seconds of a day.
    day_s: f64,
    target: f64,
}

/// One way to serve the day.
struct Variant {
    name: String,
    cell: Cell,
    replicas: Vec<u32>,
    /// The provisioning delay in minutes of a real day, with an autoscaler.
    delay: Option<u64>,
    price: f64,
}

impl SkywalkerCostFleet {
    /// Measures a replica's capacity, and sets the rate of the day by it.
    fn measure(context: &Context<'_>, plan: &Plan, day: Day) -> anyhow::Result<SkywalkerCostFleet> {
        let generator = plan.workloads[0].1.first().and_then(Feed::generator);
        let generator = generator.context("workloads.loads: give a generator")?.clone();
        let cell = *plan.cells().first().context("systems: empty; give one")?;
        let hardware = build::scenario(plan, cell, 1)?.replicas[0];
        let mut fleet = SkywalkerCostFleet {
            hardware,
            generator,
            capacity: 0.0,
            outstanding: 1.0,
            mean_rps: 0.0,
            day_s: plan.measure.window.0.as_secs_f64(),
            target: context.knob("target")?,
            day,
        };
        let (wanted, window) = (context.knob("attainment")?, context.knob("capacity_window_s")?);
        let tried = meridian_tools::parallel(RATES.len(), |i| -> anyhow::Result<(f64, f64)> {
            let mut scenario = build::scenario(plan, cell, 1)?;
            scenario.replicas = vec![hardware; TOGETHER_IN_TRIAL as usize];
            let each = f64::from(RATES[i]) / 100.0;
            scenario.loads = vec![fleet.steady(each * f64::from(TOGETHER_IN_TRIAL))];
            // A conversation lasts minutes, so a steady state takes time.
            scenario.measure.warmup = Duration::from_secs_f64(window / 4.0);
            scenario.measure.window = Duration::from_secs_f64(window);
            let report = (context.simulate)(scenario)?;
            let sum: f64 = report.samples.iter().map(|s| f64::from(s.outstanding)).sum();
            Ok((attainment(&report), sum / (report.samples.len() as f64).max(1.0)))
        });
        for (rate, tried) in RATES.iter().zip(tried) {
            let (attained, outstanding) = tried?;
            if attained < wanted {
                break;
            }
            (fleet.capacity, fleet.outstanding) = (f64::from(*rate) / 100.0, outstanding);
        }
        anyhow::ensure!(fleet.capacity > 0.0, "knobs.attainment: no rate attains it; lower it");
        let peak_rps = context.knob("replicas_at_peak")? * fleet.capacity;
        fleet.mean_rps = peak_rps / peak(&fleet.day.total);
        Ok(fleet)
    }

    fn steady(&self, rps: f64) -> Load {
        let programs = rps / self.generator.mean_requests();
        let arrivals = Poisson::new(1, programs);
        let source = Source::Open(Box::new(open_loop(self.generator.clone(), arrivals, 1, 0)));
        Load { region: 0, source, may_run_in: None }
    }

    /// The day's load in every region. The run's clock is shorter than the day by `day_s`.
    fn loads(&self, seed: u64) -> Vec<Load> {
        let programs = self.mean_rps / self.generator.mean_requests();
        let profile =
            Diurnal { day: Duration::from_secs_f64(self.day_s), ..self.day.profile.clone() };
        let load = |region: usize| {
            let arrivals = profile.arrivals(seed, region, programs);
            let source = open_loop(self.generator.clone(), arrivals, seed, region as u32);
            Load { region, source: Source::Open(Box::new(source)), may_run_in: None }
        };
        (0..profile.regions.len()).map(load).collect()
    }

    /// Replicas needed for a share of the mean load, rounded up.
    fn needed(&self, share: f64) -> u32 {
        // The rate was set from a whole number of replicas; rounding must not add one.
        (share * self.mean_rps / self.capacity - 1e-9).ceil() as u32
    }

    /// Replicas of each region for its own peak.
    fn apart(&self) -> Vec<u32> {
        self.day.regions.iter().map(|hours| self.needed(peak(hours))).collect()
    }

    /// Replicas for the peak of all regions together, shared out by their peaks: the largest
    /// remainders are rounded up.
    fn together(&self) -> Vec<u32> {
        let all = self.needed(peak(&self.day.total));
        let share = |hours: &Vec<f64>| f64::from(all) * peak(hours) / self.day.sum_of_peaks();
        let exact: Vec<f64> = self.day.regions.iter().map(share).collect();
        let mut counts: Vec<u32> = exact.iter().map(|v| v.floor() as u32).collect();
        let mut order: Vec<usize> = (0..exact.len()).collect();
        order.sort_by(|a, b| exact[*b].fract().total_cmp(&exact[*a].fract()));
        let missing = all.saturating_sub(counts.iter().sum());
        order.iter().cycle().take(missing as usize).for_each(|at| counts[*at] += 1);
        counts
    }

    /// Replicas of each region at the hour when the day starts.
    fn at_start(&self) -> Vec<u32> {
        let share = |hours: &Vec<f64>| self.needed(hours[0]).max(1);
        self.day.regions.iter().map(share).collect()
    }

    fn variants(&self, plan: &Plan) -> Vec<Variant> {
        let cell = |system| Cell { workload: 0, fleet: 0, system };
        let name = |system: usize| plan.systems[system].0.name.clone();
        let fixed = |system, replicas: Vec<u32>| {
            let name = format!("{}, reserved", name(system));
            Variant { name, cell: cell(system), replicas, delay: None, price: RESERVED }
        };
        let mut variants = vec![fixed(0, self.apart())];
        variants.extend((1..plan.systems.len()).map(|system| fixed(system, self.together())));
        variants.extend(DELAYS_MIN.map(|delay| Variant {
            name: format!("each region's autoscaler, {delay} min to provision, on demand"),
            cell: cell(0),
            replicas: self.at_start(),
            delay: Some(delay),
            price: ON_DEMAND,
        }));
        variants
    }

    fn scenario(&self, plan: &Plan, variant: &Variant, seed: u64) -> anyhow::Result<Scenario> {
        let mut scenario = build::scenario(plan, variant.cell, seed)?;
        let place = |(region, count): (usize, &u32)| {
            vec![Hardware { region, ..self.hardware }; *count as usize]
        };
        scenario.replicas = variant.replicas.iter().enumerate().flat_map(place).collect();
        scenario.loads = self.loads(seed);
        // Minutes of a real day on the run's clock.
        let minutes = |n: u64| Duration::from_secs_f64(60.0 * n as f64 * self.day_s / 86_400.0);
        scenario.autoscaler = variant.delay.map(|delay| Autoscaler {
            target_outstanding: self.target * self.outstanding,
            every: minutes(1).max(Duration::from_secs(1)),
            provisioning: minutes(delay),
            cooldown: minutes(10),
            min: 1,
            max: self.apart().into_iter().max().unwrap_or(1) * 2,
        });
        Ok(scenario)
    }

    /// Each way to serve the day: its results by seed, and broken invariants.
    fn days(&self, context: &Context<'_>, plan: &Plan) -> anyhow::Result<Vec<(Row, Vec<String>)>> {
        let variants = self.variants(plan);
        let seeds = context.seeds as usize;
        let done = std::sync::atomic::AtomicUsize::new(0);
        let reports = meridian_tools::parallel(variants.len() * seeds, |i| {
            let (variant, seed) = (&variants[i / seeds], (i % seeds + 1) as u64);
            let report = (context.simulate)(self.scenario(plan, variant, seed)?)?;
            let so_far = done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            (context.progress)(so_far, variants.len() * seeds, &variant.name);
            Ok(report)
        });
        let mut reports = reports.into_iter();
        let outcome = |variant: &Variant| {
            let mine = reports.by_ref().take(seeds).collect::<anyhow::Result<Vec<Report>>>()?;
            Ok(outcome(variant, &mine))
        };
        variants.iter().map(outcome).collect()
    }
}

fn outcome(variant: &Variant, reports: &[Report]) -> (Row, Vec<String>) {
    let each = |get: &dyn Fn(&Report) -> f64| reports.iter().map(get).collect::<Vec<f64>>();
    let replicas = each(&|r| r.replica_seconds / r.window.as_secs_f64());
    let p90 = |r: &Report| Run::new(r, None).ttft.as_ref().map_or(f64::NAN, |d| d.p(90));
    let row = Row::new(&variant.name, "day", "whole replicas")
        .with("usd_per_hour", replicas.iter().map(|count| count * variant.price))
        .with("replicas", replicas)
        .with("slo_attainment", each(&attainment))
        .with("ttft_ms.p90", each(&p90));
    (row, reports.iter().flat_map(|r| r.violations.clone()).collect())
}

/// Share of the requests with an objective that met it.
fn attainment(report: &Report) -> f64 {
    let run = Run::new(report, None);
    meridian_tools::metric::find("slo_attainment").and_then(|(_, m)| (m.of)(&run)).unwrap_or(0.0)
}
