//! SkyWalker's workload itself: the regions' days (Figure 2), prefix similarity (Figure 5) and the
//! lengths of requests (Figure 4a), without a simulation.

use std::sync::Arc;

use meridian_tools::dist::Dist;
use meridian_tools::generator;
use meridian_tools::plot::{self, Figure, Line, Point};
use meridian_tools::stats::{self, Mean};
use meridian_workload::{
    BYTES_PER_TOKEN, Diurnal, Generator, ProgramKey, Similarity, asked, similarity,
    similarity_heatmap,
};

use super::catalogue::catalogue;
use super::values::{Row, Values};
use super::{Context, Findings, params};

const HOURS: usize = 24;
const REGIONS: u32 = 3;

/// WildChat's conversations by hour (UTC), all countries.
const WILDCHAT_HOURS: &str = include_str!("../../data/wildchat/hours.csv");
/// Percentiles of its lengths.
const WILDCHAT_LENGTHS: &str = include_str!("../../data/wildchat/lengths.csv");

fn columns(csv: &'static str) -> Vec<Vec<f64>> {
    let number = |cell: &str| cell.parse::<f64>().expect("the file holds numbers");
    csv.lines().skip(1).map(|row| row.split(',').map(number).collect()).collect()
}

/// A curve over the hours of a day: of each seed, or one if nothing is random.
type Day = Vec<Vec<f64>>;

/// Each hour as a share of the day's mean.
fn line(name: &str, day: &Day) -> Line {
    let relative = |hours: &Vec<f64>, at: usize| {
        hours[at] / (hours.iter().sum::<f64>() / hours.len() as f64).max(1e-12)
    };
    let point = |at: usize| {
        let values: Vec<f64> = day.iter().map(|hours| relative(hours, at)).collect();
        let Mean { mean, low, high } = stats::mean(&values)?;
        Some(Point { x: at as f64 + 0.5, mean, low, high })
    };
    (name.to_owned(), (0..HOURS).filter_map(point).collect())
}

pub(super) fn peak_to_trough(hours: &[f64]) -> f64 {
    let most = hours.iter().copied().fold(0.0, f64::max);
    let least = hours.iter().copied().fold(f64::INFINITY, f64::min);
    most / least
}

/// The rate of a region in the middle of each hour.
pub(super) fn by_hour(rate: impl Fn(f64) -> f64) -> Vec<f64> {
    (0..HOURS).map(|hour| rate(hour as f64)).collect()
}

/// The row of a day's curve, with the model behind it if it has one.
fn day_row(name: &str, day: &Day, model: Option<&[f64]>) -> Row {
    let hours = model.unwrap_or(&day[0]);
    let busiest = (0..HOURS).max_by(|a, b| hours[*a].total_cmp(&hours[*b])).unwrap_or(0);
    Row::new("", name, "")
        .with("busiest_hour", [busiest as f64])
        .with("peak_to_trough", day.iter().map(|hours| peak_to_trough(hours)))
        .with("profile_peak_to_trough", model.map(peak_to_trough))
}

/// Figure 2.
///
/// # Errors
/// A knob that is missing, or a plot that can't be drawn.
pub(super) fn days(context: &Context<'_>) -> anyhow::Result<Findings> {
    let per_second = context.knob("per_second")?;
    let profile = Diurnal::published();
    let drawn: Vec<Day> =
        (1..=u64::from(context.seeds)).map(|seed| arrivals(&profile, seed, per_second)).collect();
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for (nth, region) in profile.regions.iter().enumerate() {
        let day: Day = drawn.iter().map(|seed| seed[nth].clone()).collect();
        let row = day_row(region.name, &day, Some(&by_hour(|hour| profile.rate(nth, hour))));
        rows.push(row.with("weight", [region.weight]).with("constant", [region.peak_to_trough]));
        lines.push(line(region.name, &day));
    }
    let sum = |regions: &Day| {
        (0..HOURS).map(|hour| regions.iter().map(|r| r[hour]).sum()).collect::<Vec<f64>>()
    };
    let all: Day = drawn.iter().map(sum).collect();
    rows.push(day_row("all five", &all, Some(&by_hour(|hour| profile.total(hour)))));
    let measured: Day = vec![columns(WILDCHAT_HOURS).iter().map(|row| row[1]).collect()];
    rows.push(day_row("WildChat, all countries", &measured, None));
    lines.extend([line("all five", &all), line("WildChat, all countries", &measured)]);
    let params = params::of_text(&format!("{profile:?} {per_second}"));
    let mut found = Findings::computed(&context.spec, Values { rows }, params)?;
    let title = "Requests by hour of the day (UTC), relative to the day's mean".to_owned();
    let svg = plot::lines(&title, ["hour (UTC)", "share of the mean"], &lines, false)?;
    found.figures.push(Figure::new(&["days"], title, svg));
    Ok(found)
}

/// A day's arrivals by region and hour.
fn arrivals(profile: &Diurnal, seed: u64, per_second: f64) -> Day {
    let count = |region: usize| {
        let mut hours = vec![0.0; HOURS];
        let day = profile.arrivals(seed, region, per_second).take_while(|at| *at < profile.day);
        for at in day {
            hours[(at.as_secs() / 3600) as usize] += 1.0;
        }
        hours
    };
    (0..profile.regions.len()).map(count).collect()
}

/// The file's workloads, each with its generator.
fn generators(context: &Context<'_>) -> anyhow::Result<Vec<(String, Arc<dyn Generator>)>> {
    let mut all = Vec::new();
    for (i, workload) in context.spec.workloads.iter().enumerate() {
        let field = format!("workloads[{i}]");
        let workload = workload.resolve(&catalogue().workloads, |w| &w.name, &field)?;
        let named = workload.loads.first().and_then(|load| load.generator.as_ref());
        let built = named.map(generator::build).transpose();
        let built = built.map_err(|errors| anyhow::anyhow!("{field}.{}", errors.join("\n")))?;
        let Some(generator) = built else { anyhow::bail!("{field}.loads: give a generator") };
        all.push((workload.name, generator));
    }
    Ok(all)
}

/// Figures 5 and 4a.
///
/// # Errors
/// A workload that the catalogue lacks, or a plot that can't be drawn.
pub(super) fn similarity_figures(context: &Context<'_>) -> anyhow::Result<Findings> {
    let conversations = context.knob("conversations")? as u64;
    let users = context.knob("heatmap_users")? as usize;
    let generators = generators(context)?;
    let (mut rows, mut figures) = (Vec::new(), Vec::new());
    for (nth, (name, generator)) in generators.iter().enumerate() {
        let seen = |seed| asked(generator.as_ref(), seed, REGIONS, conversations);
        let seeds = meridian_tools::parallel(context.seeds as usize, |seed| {
            similarity(&seen(seed as u64 + 1))
        });
        (context.progress)(nth + 1, generators.len(), name);
        let of = |get: fn(&Similarity) -> f64| seeds.iter().map(get).collect::<Vec<f64>>();
        rows.push(
            Row::new("", name, "")
                .with("within_user", of(|s| s.within_user))
                .with("across_users", of(|s| s.across_users))
                .with("across_users_in_region", of(|s| s.across_users_in_region))
                .with("across_regions", of(|s| s.across_regions))
                .with("ratio", of(Similarity::ratio)),
        );
        let title = format!("Prefix similarity of {users} users ({name})");
        let square = similarity_heatmap(&seen(1), users);
        let svg = plot::heatmap(&title, "mean similarity of two users' requests", &square)?;
        figures.push(Figure::new(&["similarity", name], title, svg));
    }
    if let Some((_, generator)) = generators.first() {
        let lengths = lengths(generator.as_ref(), conversations);
        rows.extend(lengths.iter().map(|(name, dist)| {
            let at = [10, 25, 50, 75, 90, 99].map(|p| (format!("tokens_p{p}"), dist.p(p)));
            at.into_iter().fold(Row::new("", name, ""), |row, (name, v)| row.with(&name, [v]))
        }));
        for (what, places) in [("First prompts", [0, 3]), ("Replies", [1, 4])] {
            let title = format!("{what}: made, and measured on WildChat");
            let shown: Vec<(String, Dist)> = places.map(|i| lengths[i].clone()).into();
            let svg = plot::cdf(&title, "tokens", &shown, true)?;
            figures.push(Figure::new(&["lengths", what], title, svg));
        }
    }
    let params = params::of_generators(generators.iter().map(|(_, made)| made.as_ref()));
    let mut found = Findings::computed(&context.spec, Values { rows }, params)?;
    found.figures.extend(figures);
    Ok(found)
}

/// First prompts, replies and whole prompts as generated, then first prompts and replies as
/// measured.
fn lengths(generator: &dyn Generator, programs: u64) -> Vec<(String, Dist)> {
    let (mut first, mut replies, mut whole) = (Vec::new(), Vec::new(), Vec::new());
    for ordinal in 0..programs * u64::from(REGIONS) {
        let program = generator.program(ProgramKey { seed: 1, region: 0, client: 0, ordinal });
        for (i, node) in program.nodes.iter().enumerate() {
            let prompt = meridian_workload::prompt_of(&program, i);
            let bytes: u32 = prompt.iter().map(|s| s.bytes).sum();
            let tokens = f64::from(bytes) / f64::from(BYTES_PER_TOKEN);
            whole.push(tokens);
            first.extend((i == 0).then_some(tokens));
            replies.push(f64::from(node.max_tokens));
        }
    }
    let measured = columns(WILDCHAT_LENGTHS);
    let column = |at: usize| measured.iter().map(|row| row[at].max(1.0)).collect();
    let named = [
        ("first prompts, made", first),
        ("replies, made", replies),
        ("whole prompts, made", whole),
        ("first prompts, measured", column(1)),
        ("replies, measured", column(2)),
    ];
    let dist = |(name, values): (&str, Vec<f64>)| Some((name.to_owned(), Dist::of(values)?));
    named.into_iter().filter_map(dist).collect()
}
