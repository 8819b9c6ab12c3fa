//! `meridian explain ID`

use anyhow::Context;
use meridian_wire::admin::{Candidate, Explanation};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The request's id, from its x-request-id header
    id: String,
    #[command(flatten)]
    admin: crate::admin::Admin,
    /// Prints the answer as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let body = args.admin.get(&format!("/admin/explain/{}", args.id))?;
    if args.json {
        println!("{body}");
        return Ok(());
    }
    let explanation: Explanation =
        serde_json::from_str(&body).context("the gateway's answer is no explanation")?;
    print(&explanation);
    Ok(())
}

fn print(e: &Explanation) {
    let picked = e.picked.as_deref().unwrap_or("nothing");
    let resumed = if e.resumed { ", going on with a broken answer" } else { "" };
    println!(
        "{}: {} picked {picked} ({}), attempt {}{resumed}",
        e.id, e.policy, e.reason, e.attempt
    );
    if e.logged_as != e.id {
        println!("  in the gateway's log: {}", e.logged_as);
    }
    for c in &e.candidates {
        println!("  {}", line(c));
    }
}

fn line(c: &Candidate) -> String {
    let standing = c.ineligible.as_deref().unwrap_or("eligible");
    let terms: Vec<_> = c.terms.iter().map(|(name, value)| format!("{name} {value:.2}")).collect();
    format!(
        "r{} {} {standing}: matched {:.0} of {} tokens, pending {}, running {}, outstanding {}, in front {:.0} tokens, kv {:.0} % {}",
        c.id,
        c.url,
        c.matched_tokens,
        c.prompt_tokens,
        c.pending,
        c.running,
        c.outstanding,
        c.front_tokens,
        c.kv_used * 100.0,
        terms.join(", ")
    )
}
