//! `meridian bench sweep`: the most requests a second that an endpoint serves within an objective.

use std::time::Duration;

use anyhow::bail;
use meridian_tools::load::Slo;
use meridian_tools::sweep::Ended;
use meridian_tools::{load, sweep};

use super::contents::Contents;
use super::output::{Files, Forms, print};
use super::requests::{Requests, runtime, stop};
use super::target::Target;
use super::{progress, seconds};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: meridian bench sweep --url http://127.0.0.1:8080 --slo ttft=500ms,tpot=50ms"
)]
pub(super) struct Sweep {
    #[command(flatten)]
    rates: Rates,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    contents: Contents,
    #[command(flatten)]
    requests: Requests,
    #[command(flatten)]
    files: Files,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Rates")]
struct Rates {
    /// Objective: limits of ttft, tpot and e2e, and the share of requests that must meet them
    #[arg(long, value_name = "ttft=500ms,tpot=50ms,share=0.95")]
    slo: Slo,
    /// Requests per second to measure, from low to high [default: doubled until one misses the
    /// objective, then bisected]
    #[arg(long, value_delimiter = ',', conflicts_with_all = ["from", "most", "precision"])]
    rates: Vec<f64>,
    /// First rate of the search
    #[arg(long, default_value_t = 1.0)]
    from: f64,
    /// Highest rate of the search
    #[arg(long, default_value_t = 4096.0)]
    most: f64,
    /// End the search when the rates that meet and miss the objective are this share apart
    #[arg(long, default_value_t = 0.1)]
    precision: f64,
    /// Time at each rate that is not measured
    #[arg(long, default_value = "10s", value_parser = seconds)]
    warmup: Duration,
    /// Time at each rate that is measured
    #[arg(long, default_value = "30s", value_parser = seconds)]
    window: Duration,
    /// Repetitions
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Make the engine send exactly --max-tokens tokens
    #[arg(long)]
    ignore_eos: bool,
}

/// How long a sweep will take.
fn estimate(options: &sweep::Options) -> String {
    let windows = options.windows();
    // Whole seconds: the rest does not matter.
    let [each, all] = [options.warmup + options.window, options.length()]
        .map(|time| humantime::format_duration(Duration::from_secs(time.as_secs())));
    let about = if options.rates.is_empty() { "about " } else { "" };
    format!("{about}{windows} windows of {each} each: {about}{all}")
}

/// Measures the rates.
pub(super) fn run(args: Sweep) -> anyhow::Result<()> {
    let Sweep { rates, target, contents, requests, files } = args;
    files.check()?;
    let runtime = runtime(requests.threads)?;
    let mut load = load::Options {
        slo: Some(rates.slo),
        ignore_eos: rates.ignore_eos,
        tick: Duration::from_millis(250),
        ..load::Options::default()
    };
    target.set(&mut load);
    contents.set(&mut load);
    requests.set(&mut load);
    let options = sweep::Options {
        load,
        rates: rates.rates,
        from: rates.from,
        most: rates.most,
        precision: rates.precision,
        warmup: rates.warmup,
        window: rates.window,
        rounds: rates.rounds,
    };
    eprintln!("{}", estimate(&options));
    let watch = progress::of_sweep(rates.warmup + rates.window);
    let found = runtime.block_on(async { sweep::run(options, watch, stop()?).await })?;
    print(&sweep::render(&found));
    files.write(&Forms {
        json: &|| sweep::json(&found),
        csv: &|| sweep::csv(&found),
        svg: &|| sweep::svg(&found),
    })?;
    match found.ended {
        Some(Ended::Dead) => bail!("the endpoint answers nothing any more: see the last rate"),
        Some(Ended::Failed(why)) => bail!("{why}"),
        Some(Ended::Stopped) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Defect command-line: a sweep says at its start how long it takes, exactly for a list of rates.
    #[test]
    fn a_sweep_has_an_estimate() {
        let mut options = sweep::Options {
            load: load::Options::default(),
            rates: vec![1.0, 2.0, 4.0, 8.0],
            from: 1.0,
            most: 4096.0,
            precision: 0.1,
            warmup: Duration::from_secs(10),
            window: Duration::from_secs(30),
            rounds: 3,
        };
        assert_eq!(estimate(&options), "12 windows of 40s each: 8m");
        options.rates.clear();
        let said = estimate(&options);
        assert!(
            said.starts_with("about ") && said.contains(" windows of 40s each: about "),
            "{said}"
        );
    }
}
