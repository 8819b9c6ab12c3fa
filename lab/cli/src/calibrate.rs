//! `meridian calibrate`

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use meridian_tools::calibrate::{Found, Options, run as measure};
use serde_json::json;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Replica, http://host:port; no other client should use it meanwhile
    url: String,
    /// Model [default: the first of /v1/models]
    #[arg(long)]
    model: Option<String>,
    /// API key
    #[arg(long, env = "OPENAI_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
    /// Tokens in the shortest prompt
    #[arg(long, default_value_t = 256)]
    from: u32,
    /// Tokens in the longest prompt
    #[arg(long, default_value_t = 8192)]
    to: u32,
    /// Number of lengths, including both
    #[arg(long, default_value_t = 12)]
    points: u32,
    /// Requests for each length
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Seed of the prompts [default: a new one each time]
    #[arg(long)]
    seed: Option<u64>,
    /// Timeout for a first token, in seconds
    #[arg(long, default_value_t = 120)]
    timeout: u64,
    /// Write the points and the fit to this file
    #[arg(long)]
    json: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let json = args.json.clone();
    let options = Options {
        url: args.url,
        model: args.model,
        api_key: args.api_key,
        from: args.from,
        to: args.to,
        lengths: args.points,
        rounds: args.rounds,
        timeout: Duration::from_secs(args.timeout),
        seed: args.seed.unwrap_or_else(now),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let shows = std::io::stderr().is_terminal();
    let found = runtime.block_on(measure(&options, |point| {
        if shows {
            eprintln!("{:>8} tokens {:>10.1} ms", point.tokens, point.ttft_ms);
        }
    }))?;
    print(&options.url, &found);
    if let Some(path) = json {
        let text = serde_json::to_vec_pretty(&as_json(&found))?;
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// A seed that no earlier run had, so that no prompt is cached from it.
#[expect(clippy::disallowed_methods, reason = "a seed that no earlier run had")]
fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |since| since.as_nanos() as u64)
}

fn print(url: &str, found: &Found) {
    let line = &found.line;
    let tokens = || found.points.iter().map(|point| point.tokens);
    println!(
        "{url}, {}: {} prompts of {} to {} tokens, one at a time",
        found.model,
        line.points,
        tokens().min().unwrap_or_default(),
        tokens().max().unwrap_or_default()
    );
    println!("TTFT = a + b x tokens, R2 {:.4}", line.r2);
    let ((a_low, a_high), (b_low, b_high)) = (line.intercept_interval(), line.slope_interval());
    println!("  a  {:>10.2} ms         95 %: {a_low:.2} to {a_high:.2}", line.intercept);
    println!("  b  {:>10.4} ms/token   95 %: {b_low:.4} to {b_high:.4}", line.slope);
    for warning in &found.warnings {
        println!("warning: {warning}");
    }
    if line.slope > 0.0 {
        println!(
            "\n# for the gateway's configuration: what it starts from, until answers teach it"
        );
        println!("ms_per_token: {:.4}", line.slope);
    }
}

fn as_json(found: &Found) -> serde_json::Value {
    let line = &found.line;
    let points: Vec<_> = found
        .points
        .iter()
        .map(|p| json!({"tokens": p.tokens, "cached": p.cached, "ttft_ms": p.ttft_ms, "busy": p.busy}))
        .collect();
    json!({
        "model": found.model, "intercept_ms": line.intercept, "ms_per_token": line.slope,
        "intercept_95": line.intercept_interval(), "ms_per_token_95": line.slope_interval(),
        "r2": line.r2, "warnings": found.warnings, "points": points,
    })
}
