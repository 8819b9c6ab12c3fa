//! `meridian explain`: one decision with its candidates and its outcome, or a list of the newest; or
//! the times of requests for Perfetto.

mod list;
mod one;
mod perfetto;
mod table;
mod words;

#[cfg(test)]
mod tests;

use std::io::{self, Write};

use anyhow::Context;
use meridian_protocol::admin::Times;
use serde::de::DeserializeOwned;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Id of the request, from the x-request-id header of its answer; without it, the newest
    /// decisions are listed
    id: Option<String>,
    #[command(flatten)]
    admin: crate::admin::Admin,
    /// Print every candidate
    #[arg(long, requires = "id")]
    all: bool,
    /// Decisions to list, or requests in the trace
    #[arg(long, value_name = "N", default_value_t = 20, conflicts_with = "id")]
    last: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print the times of finished requests as a trace that ui.perfetto.dev opens
    #[arg(long, conflicts_with_all = ["all", "json"])]
    perfetto: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.perfetto {
        return perfetto(args);
    }
    let path = match &args.id {
        Some(id) => format!("/admin/explain/{id}"),
        None => format!("/admin/decisions?last={}", args.last),
    };
    let body = args.admin.get(&path)?;
    if args.json {
        writeln!(io::stdout(), "{body}")?;
        return Ok(());
    }
    let text = match args.id {
        Some(_) => one::text(&parsed(&body)?, args.all),
        None => list::text(&parsed::<Vec<_>>(&body)?),
    };
    Ok(write!(io::stdout(), "{text}")?)
}

fn perfetto(args: &Args) -> anyhow::Result<()> {
    let path = match &args.id {
        Some(id) => format!("/admin/times/{id}"),
        None => format!("/admin/times?last={}", args.last),
    };
    let times: Times = parsed(&args.admin.get(&path)?)?;
    Ok(writeln!(io::stdout(), "{}", perfetto::trace(&times))?)
}

fn parsed<T: DeserializeOwned>(body: &str) -> anyhow::Result<T> {
    serde_json::from_str(body).context(
        "the gateway sent no valid explanation; check that --admin is a gateway's admin address",
    )
}
