//! SkyWalker's workload itself: the regions' days (Figure 2), prefix similarity (Figure 5) and the
//! lengths of requests (Figure 4a), without a simulation.

use std::sync::Arc;

use meridian_workload::{
    BYTES_PER_TOKEN, Diurnal, Generator, ProgramKey, Similarity, asked, similarity,
    similarity_heatmap,
};
use serde_json::json;

use super::Context;
use super::Findings;
use super::catalogue::catalogue;
use super::claim::{Claim, Verdict};
use super::params;
use super::results;
use meridian_tools::dist::Dist;
use meridian_tools::generator;
use meridian_tools::plot;
use meridian_tools::plot::Figure;
use meridian_tools::plot::Line;
use meridian_tools::plot::Point;
use meridian_tools::stats;
use meridian_tools::stats::Mean;
use meridian_tools::table::Table;

const HOURS: usize = 24;
const REGIONS: u32 = 3;

/// WildChat's conversations by hour (UTC), all countries.
const WILDCHAT_HOURS: &str = include_str!("../../data/wildchat/hours.csv");
/// Percentiles of its lengths.
const WILDCHAT_LENGTHS: &str = include_str!("../../data/wildchat/lengths.csv");

/// Figure 3's smallest and largest ratio of peak to trough of a region, and that of the sum.
const PUBLISHED_RATIOS: [f64; 3] = [2.88, 32.64, 1.29];

fn columns(csv: &'static str) -> Vec<Vec<f64>> {
    let number = |cell: &str| cell.parse::<f64>().expect("the file holds numbers");
    csv.lines().skip(1).map(|row| row.split(',').map(number).collect()).collect()
}

/// A curve over the hours of a day, by its values in each seed.
struct Day {
    name: String,
    /// By seed, then by hour; one seed if nothing is random.
    seeds: Vec<Vec<f64>>,
    /// The model behind it, by hour.
    profile: Option<Vec<f64>>,
}

impl Day {
    fn ratios(&self) -> Vec<f64> {
        self.seeds.iter().map(|hours| peak_to_trough(hours)).collect()
    }

    /// Each hour as a share of the day's mean.
    fn line(&self) -> Line {
        let relative = |hours: &Vec<f64>, at: usize| {
            hours[at] / (hours.iter().sum::<f64>() / hours.len() as f64).max(1e-12)
        };
        let point = |at: usize| {
            let values: Vec<f64> = self.seeds.iter().map(|hours| relative(hours, at)).collect();
            let Mean { mean, low, high } = stats::mean(&values)?;
            Some(Point { x: at as f64 + 0.5, mean, low, high })
        };
        (self.name.clone(), (0..HOURS).filter_map(point).collect())
    }
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

/// Figure 2.
///
/// # Errors
/// A knob that is missing, or a plot that can't be drawn.
pub(super) fn days(context: &Context<'_>) -> anyhow::Result<Findings> {
    let per_second = context.knob("per_second")?;
    let profile = Diurnal::published();
    let seeds: Vec<u64> = (1..=u64::from(context.seeds)).collect();
    let drawn: Vec<Vec<Vec<f64>>> =
        seeds.iter().map(|seed| arrivals(&profile, *seed, per_second)).collect();
    let mut days: Vec<Day> = (0..profile.regions.len())
        .map(|region| Day {
            name: profile.regions[region].name.to_owned(),
            seeds: drawn.iter().map(|seed| seed[region].clone()).collect(),
            profile: Some(by_hour(|hour| profile.rate(region, hour))),
        })
        .collect();
    let sum = |regions: &Vec<Vec<f64>>| {
        (0..HOURS).map(|hour| regions.iter().map(|r| r[hour]).sum()).collect::<Vec<f64>>()
    };
    days.push(Day {
        name: "all five".to_owned(),
        seeds: drawn.iter().map(sum).collect(),
        profile: Some(by_hour(|hour| profile.total(hour))),
    });
    let measured = columns(WILDCHAT_HOURS).iter().map(|row| row[1]).collect();
    days.push(Day { name: "WildChat, all countries".into(), seeds: vec![measured], profile: None });
    let lines: Vec<Line> = days.iter().map(Day::line).collect();
    let title = "Requests by hour of the day (UTC), relative to the day's mean".to_owned();
    let svg = plot::lines(&title, ["hour (UTC)", "share of the mean"], &lines, false)?;
    Ok(Findings {
        rows: days.iter().map(day_row).collect(),
        tables: vec![day_table(&profile, &days)],
        claims: day_claims(&days),
        figures: vec![Figure::new(&["days"], title, svg)],
        params: params::of_text(&format!("{profile:?} {per_second}")),
        ..Findings::default()
    })
}

/// A day's arrivals by region and hour.
fn arrivals(profile: &Diurnal, seed: u64, per_second: f64) -> Vec<Vec<f64>> {
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

fn busiest(hours: &[f64]) -> usize {
    (0..hours.len()).max_by(|a, b| hours[*a].total_cmp(&hours[*b])).unwrap_or(0)
}

fn day_table(profile: &Diurnal, days: &[Day]) -> Table {
    let title = "A day by the hour: peak over trough";
    let header = [
        "region",
        "mean share of the load",
        "busiest hour (UTC)",
        "constant",
        "profile",
        "arrivals",
    ];
    let mut table = Table::new(title, &header);
    for (i, day) in days.iter().enumerate() {
        let region = profile.regions.get(i);
        let hours = day.profile.as_ref().unwrap_or(&day.seeds[0]);
        let ratio = stats::mean(&day.ratios());
        table.row([
            day.name.clone(),
            region.map_or("-".to_owned(), |r| format!("{:.1} %", r.weight * 100.0)),
            busiest(hours).to_string(),
            region.map_or("-".to_owned(), |r| format!("{:.2}", r.peak_to_trough)),
            day.profile.as_deref().map_or("-".to_owned(), |p| format!("{:.2}", peak_to_trough(p))),
            ratio.map_or("-".to_owned(), |m| format!("{:.2} ({:.2}-{:.2})", m.mean, m.low, m.high)),
        ]);
    }
    table
}

fn day_claims(days: &[Day]) -> Vec<Claim> {
    let ratios: Vec<f64> =
        days.iter().filter_map(|d| d.profile.as_deref()).map(peak_to_trough).collect();
    let Some((sum, regions)) = ratios.split_last() else { return Vec::new() };
    let least = regions.iter().copied().fold(f64::INFINITY, f64::min);
    let most = regions.iter().copied().fold(0.0, f64::max);
    let what = ["of the steadiest region", "of the least steady region", "of all together"];
    let pairs = what.iter().zip(PUBLISHED_RATIOS).zip([least, most, *sum]);
    let claim = |((what, published), ours): ((&&str, f64), f64)| {
        let verdict = Verdict::of((ours / published - 1.0).abs() <= 0.05);
        let what = format!("peak over trough by the hour, {what}");
        Claim::about(&what, "Fig. 3a", format!("{published:.2}"), format!("{ours:.2}"), verdict)
    };
    pairs.map(claim).collect()
}

fn day_row(day: &Day) -> serde_json::Value {
    let profile = day.profile.as_deref().map(peak_to_trough);
    let ratio = stats::mean(&day.ratios()).map(|m| m.mean);
    let given = [("peak_to_trough", json!(ratio)), ("profile_peak_to_trough", json!(profile))];
    results::bare("workload", &day.name, &given)
}

/// Published figures of a workload: how many times more similar requests of one user are, and the
/// similarity across regions.
const PUBLISHED_SIMILARITY: [(&str, f64, Option<f64>); 2] =
    [("arena", 2.47, None), ("wildchat", 7.60, Some(0.025))];

/// A workload with its results, by seed.
struct Likeness {
    name: String,
    generator: Arc<dyn Generator>,
    seeds: Vec<Similarity>,
}

/// The similarity of each of the file's workloads.
fn similarity_of(context: &Context<'_>) -> anyhow::Result<Vec<Likeness>> {
    let conversations = context.knob("conversations")? as u64;
    let seeds = context.seeds as usize;
    let mut found = Vec::new();
    for (i, workload) in context.spec.workloads.iter().enumerate() {
        let field = format!("workloads[{i}]");
        let workload = workload.resolve(&catalogue().workloads, |w| &w.name, &field)?;
        let named = workload.loads.first().and_then(|load| load.generator.as_ref());
        let built = named.map(generator::build).transpose();
        let built = built.map_err(|errors| anyhow::anyhow!("{field}.{}", errors.join("\n")))?;
        let Some(generator) = built else { anyhow::bail!("{field}.loads: give a generator") };
        let seeds = meridian_tools::parallel(seeds, |seed| {
            let seen = asked(generator.as_ref(), seed as u64 + 1, REGIONS, conversations);
            similarity(&seen)
        });
        (context.progress)(i + 1, context.spec.workloads.len(), &workload.name);
        found.push(Likeness { name: workload.name, generator, seeds });
    }
    Ok(found)
}

/// Figures 5 and 4a.
///
/// # Errors
/// A workload that the catalogue lacks, or a plot that can't be drawn.
pub(super) fn similarity_figures(context: &Context<'_>) -> anyhow::Result<Findings> {
    let likenesses = similarity_of(context)?;
    let conversations = context.knob("conversations")? as u64;
    let users = context.knob("heatmap_users")? as usize;
    let mut found = Findings {
        tables: vec![similarity_table(&likenesses)],
        claims: similarity_claims(&likenesses),
        params: params::of_generators(likenesses.iter().map(|l| l.generator.as_ref())),
        ..Findings::default()
    };
    for likeness in &likenesses {
        let seen = asked(likeness.generator.as_ref(), 1, REGIONS, conversations);
        let title = format!("Prefix similarity of {users} users ({})", likeness.name);
        let square = similarity_heatmap(&seen, users);
        let svg = plot::heatmap(&title, "mean similarity of two users' requests", &square)?;
        found.figures.push(Figure::new(&["similarity", &likeness.name], title, svg));
        found.rows.push(similarity_row(likeness));
    }
    if let Some(likeness) = likenesses.first() {
        let lengths = lengths(likeness.generator.as_ref(), conversations);
        found.tables.push(length_table(&lengths));
        for (what, places) in [("First prompts", [0, 3]), ("Replies", [1, 4])] {
            let title = format!("{what}: made, and measured on WildChat");
            let shown: Vec<(String, Dist)> = places.map(|i| lengths[i].clone()).into();
            let svg = plot::cdf(&title, "tokens", &shown, true)?;
            found.figures.push(Figure::new(&["lengths", what], title, svg));
        }
    }
    Ok(found)
}

fn means(likeness: &Likeness, get: fn(&Similarity) -> f64) -> Option<Mean> {
    stats::mean(&likeness.seeds.iter().map(get).collect::<Vec<_>>())
}

fn similarity_table(likenesses: &[Likeness]) -> Table {
    let title = "Mean prefix similarity of two requests, %";
    let header = [
        "workload",
        "within a user",
        "across users",
        "of one region",
        "across regions",
        "ratio",
        "published",
    ];
    let mut table = Table::new(title, &header);
    for likeness in likenesses {
        let show = |get, scale: f64| {
            means(likeness, get).map_or("-".to_owned(), |m| {
                format!("{:.2} ({:.2}-{:.2})", m.mean * scale, m.low * scale, m.high * scale)
            })
        };
        let published = PUBLISHED_SIMILARITY.iter().find(|p| p.0 == likeness.name);
        table.row([
            likeness.name.clone(),
            show(|s| s.within_user, 100.0),
            show(|s| s.across_users, 100.0),
            show(|s| s.across_users_in_region, 100.0),
            show(|s| s.across_regions, 100.0),
            show(Similarity::ratio, 1.0),
            published.map_or("-".to_owned(), |p| format!("{:.2}", p.1)),
        ]);
    }
    table
}

fn similarity_claims(likenesses: &[Likeness]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (name, ratio, regions) in PUBLISHED_SIMILARITY {
        let Some(likeness) = likenesses.iter().find(|l| l.name == name) else { continue };
        let near = |ours: f64, published: f64| Verdict::of((ours / published - 1.0).abs() <= 0.2);
        if let Some(ours) = means(likeness, Similarity::ratio).map(|m| m.mean) {
            let what = format!("similarity within over across users, {name}");
            let shown = [ratio, ours].map(|v| format!("{v:.2}x"));
            let [published, mine] = shown;
            claims.push(Claim::about(&what, "section 3.2", published, mine, near(ours, ratio)));
        }
        let ours = means(likeness, |s| s.across_regions).map(|m| m.mean);
        if let Some((ours, published)) = ours.zip(regions) {
            let what = format!("similarity across regions, {name}");
            let [theirs, mine] = [published, ours].map(|v| format!("{:.2} %", v * 100.0));
            claims.push(Claim::about(&what, "Fig. 5a", theirs, mine, near(ours, published)));
        }
    }
    claims
}

fn similarity_row(likeness: &Likeness) -> serde_json::Value {
    let mean = |get| json!(means(likeness, get).map(|m| m.mean));
    let given = [
        ("within_user", mean(|s| s.within_user)),
        ("across_users", mean(|s| s.across_users)),
        ("across_regions", mean(|s| s.across_regions)),
        ("ratio", mean(Similarity::ratio)),
    ];
    results::bare("workload", &likeness.name, &given)
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

fn length_table(lengths: &[(String, Dist)]) -> Table {
    let title = "Lengths in tokens (Figure 4a's distributions, whose figures are not published)";
    let mut table = Table::new(title, &["of", "P10", "P25", "P50", "P75", "P90", "P99"]);
    for (name, dist) in lengths {
        let at = [10, 25, 50, 75, 90, 99].map(|p| format!("{:.0}", dist.p(p)));
        table.row(std::iter::once(name.clone()).chain(at));
    }
    table
}
