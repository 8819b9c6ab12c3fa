//! `meridian plan sweep`: the least GPUs for each of several rates.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use meridian_plan::units::Span;
use meridian_plan::{Point, Prices, Side, Task};
use meridian_tools::table::Table;
use meridian_tools::{outputs, plot};

use super::asked::About;
use super::cost::{Cost, bill, digits};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    about: About,
    #[command(flatten)]
    cost: Cost,
    /// Rates in requests a second: A..B/N for N of them from A to B, or a list
    #[arg(long, value_name = "A..B/N", allow_hyphen_values = true)]
    rates: String,
    /// Write the figures to this file, for a spreadsheet
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a plot to this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let about = &args.about;
    outputs::check([("--csv", &args.csv), ("--svg", &args.svg)])?;
    let topology = super::all(about.spec()?.build(), "--topology")?;
    let subject = about.subject()?;
    let rates = super::all(meridian_plan::rates(&args.rates), "--rates")?;
    let prices = args.cost.prices(&topology)?;
    let measured = about.measured(&subject)?;
    let task = about.task(&topology, &subject, measured.as_ref())?;
    let points = super::all(meridian_plan::sweep(&task, &rates, &progress), "no plan")?;
    let prices = prices.as_ref();
    let mut said = measured.map_or(String::new(), |measured| measured.text(&task));
    said.push_str(&table(&task, &points, prices).text());
    let files = [
        (&args.csv, "--csv", csv(&task, &points, prices).csv()),
        (&args.svg, "--svg", svg(&task, &points, prices)?),
    ];
    for (path, option, text) in files {
        if let Some(path) = path {
            write(path, option, &text)?;
            said.push_str(&format!("\nwritten to {}\n", path.display()));
        }
    }
    Ok(std::io::stdout().write_all(said.as_bytes())?)
}

/// A line for each rate on stderr: a rate may take a minute.
fn progress(done: usize, of: usize, point: &Point) {
    let side = |(name, of): (&str, fn(&Point) -> Option<&Side>)| match of(point) {
        Some(side) => format!("{name} {} GPUs", side.gpus.len()),
        None => format!("{name} none"),
    };
    let sides = SIDES.map(side).join(", ");
    eprintln!("plan sweep: {done}/{of} {:.3} requests/s: {sides}", point.rate);
}

fn write(path: &Path, option: &str, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("{option} {}", path.display()))
}

/// A side of a point.
type Of = fn(&Point) -> Option<&Side>;

/// The two sides of a point.
const SIDES: [(&str, Of); 2] = [
    ("separate", |point| point.separate.as_ref()),
    ("aggregated", |point| point.aggregated.as_ref()),
];

/// For the terminal.
fn table(task: &Task<'_>, points: &[Point], prices: Option<&Prices>) -> Table {
    let price = if prices.is_some() { "price an hour" } else { "GPU-hours a million requests" };
    let mut header = vec!["requests/s".to_owned()];
    for (name, _) in SIDES {
        header.extend(["GPUs", price, "TTFT", "TPOT"].map(|one| format!("{name}: {one}")));
    }
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let share = 100.0 * task.slo.attainment;
    let title = format!("Least GPUs for each rate; TTFT of {share} %, mean TPOT");
    let mut table = Table::new(title, &header);
    for point in points {
        let mut row = vec![format!("{:.3}", point.rate)];
        for (_, of) in SIDES {
            row.extend(match of(point) {
                Some(side) => {
                    let bill = bill(task, prices, &side.gpus, point.rate);
                    let hours = bill.hours_per_million_requests();
                    let price = bill.per_hour.map_or(digits(hours), |price| format!("{price:.2}"));
                    let times = [side.times.ttft_within, side.times.tpot];
                    let [ttft, tpot] = times.map(|one| Span(one).to_string());
                    [side.gpus.len().to_string(), price, ttft, tpot]
                }
                None => ["-"; 4].map(str::to_owned),
            });
        }
        table.row(row);
    }
    table
}

/// For a spreadsheet: a row for each rate and side, empty where the topology can't serve it.
fn csv(task: &Task<'_>, points: &[Point], prices: Option<&Prices>) -> Table {
    let header = [
        "rate_rps",
        "instances",
        "gpus",
        "goodput_rps",
        "ttft_s_mean",
        "ttft_s_within",
        "tpot_s",
        "gpu_hours_per_million_requests",
        "gpu_hours_per_million_output_tokens",
        "price_per_hour",
        "price_per_request",
        "price_per_million_output_tokens",
    ];
    let mut table = Table::new("", &header);
    for point in points {
        for (name, of) in SIDES {
            let mut row = vec![point.rate.to_string(), name.to_owned()];
            if let Some(side) = of(point) {
                let bill = bill(task, prices, &side.gpus, point.rate);
                row.push(bill.gpus.to_string());
                let times = side.times;
                let hours = [bill.hours_per_million_requests(), bill.hours_per_million_tokens()];
                let all = [side.goodput, times.ttft, times.ttft_within, times.tpot];
                row.extend(all.into_iter().chain(hours).map(|one| format!("{one:.6}")));
                let prices = [bill.per_hour, bill.per_request(), bill.per_million_tokens()];
                row.extend(prices.map(|one| one.map_or(String::new(), |one| format!("{one:.8}"))));
            }
            row.resize(header.len(), String::new());
            table.row(row);
        }
    }
    table
}

/// GPUs over the rate, and the price if there are prices.
fn svg(task: &Task<'_>, points: &[Point], prices: Option<&Prices>) -> anyhow::Result<String> {
    let lines = |value: &dyn Fn(&Side) -> f64| -> Vec<plot::Line> {
        let line = |(name, of): (&str, fn(&Point) -> Option<&Side>)| {
            let at = |point: &Point| {
                let mean = value(of(point)?);
                Some(plot::Point { x: point.rate, mean, low: mean, high: mean })
            };
            (name.to_owned(), points.iter().filter_map(at).collect())
        };
        SIDES.into_iter().map(line).collect()
    };
    let name = &task.subject.name;
    let gpus = lines(&|side| side.gpus.len() as f64);
    let title = format!("Least GPUs for {name} on {}", task.topology.name);
    let mut plots = vec![plot::lines(&title, ["requests/s", "GPUs"], &gpus, false)?];
    if let Some(prices) = prices {
        let price = lines(&|side| prices.of(task.topology, &side.gpus));
        plots.push(plot::lines("Price", ["requests/s", "an hour"], &price, false)?);
    }
    plot::stack(&plots)
}
