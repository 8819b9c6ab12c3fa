//! `meridian explain ID`

use anyhow::Context;
use meridian_wire::admin::{Candidate, Explanation, PeerCandidate};

/// Longest line, unless one word is longer.
const COLUMNS: usize = 100;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Id of the request, from the x-request-id header of its answer
    id: String,
    #[command(flatten)]
    admin: crate::admin::Admin,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let body = args.admin.get(&format!("/admin/explain/{}", args.id))?;
    if args.json {
        println!("{body}");
        return Ok(());
    }
    let explanation: Explanation = serde_json::from_str(&body).context(
        "the gateway sent no valid explanation; check that --url is a gateway's admin address",
    )?;
    print(&explanation);
    Ok(())
}

fn print(e: &Explanation) {
    let picked = e.picked.as_deref().unwrap_or("nothing");
    let resumed = if e.resumed { ", resuming a broken answer" } else { "" };
    let head = format!(
        "{}: {} picked {picked} ({}), attempt {}{resumed}",
        e.id, e.policy, e.reason, e.attempt
    );
    println!("{}", wrapped(&head, ""));
    if e.logged_as != e.id {
        println!("  in the gateway's log: {}", e.logged_as);
    }
    if !e.rules.is_empty() {
        println!("{}", wrapped(&format!("  residency rules: {}", e.rules.join(", ")), "    "));
    }
    let mark = |name: &str| if e.picked.as_deref() == Some(name) { '*' } else { ' ' };
    let prompt = e.candidates.first().map(|c| c.prompt_tokens);
    for c in &e.candidates {
        println!("{}", wrapped(&replica(c, mark(&c.url)), "      "));
    }
    for p in &e.peers {
        println!("{}", wrapped(&peer(p, prompt, mark(&p.name)), "      "));
    }
}

fn replica(c: &Candidate, mark: char) -> String {
    let standing = c.ineligible.as_deref().unwrap_or("eligible");
    let terms: String =
        c.terms.iter().map(|(name, value)| format!(", {name} {value:.2}")).collect();
    format!(
        "{mark} r{} {} {standing}: matched {:.0} of {} tokens, pending {}, running {}, outstanding {}, in front {:.0} tokens, kv {:.0} %{terms}",
        c.id,
        c.url,
        c.matched_tokens,
        c.prompt_tokens,
        c.pending,
        c.running,
        c.outstanding,
        c.front_tokens,
        c.kv_used * 100.0,
    )
}

/// One line for a peer. `prompt` is `None` if this gateway has no replica of the model.
fn peer(p: &PeerCandidate, prompt: Option<u32>, mark: char) -> String {
    let standing = p.unavailable.as_deref().unwrap_or("eligible");
    let of = prompt.map_or_else(String::new, |tokens| format!(" of {tokens}"));
    format!(
        "{mark} peer {} {standing}: matched {:.0}{of} tokens, rtt {:.0} ms, {} replicas with free capacity, queued {}, forwarded since its report {}",
        p.name, p.matched_tokens, p.rtt_ms, p.eligible, p.held, p.since,
    )
}

/// Breaks a line between words to fit [`COLUMNS`]; further lines start with `indent`.
fn wrapped(line: &str, indent: &str) -> String {
    let (mut text, mut width) = (String::new(), 0);
    for word in line.split_inclusive(' ') {
        let length = word.trim_end().chars().count();
        if width > indent.len() && width + length > COLUMNS {
            text.truncate(text.trim_end().len());
            text.push('\n');
            text.push_str(indent);
            width = indent.len();
        }
        text.push_str(word);
        width += word.chars().count();
    }
    text
}
