//! `meridian explain ID`

use anyhow::Context;
use meridian_wire::admin::{Candidate, Explanation, Pair, PeerCandidate};

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
    let picked = picked(e);
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
    if let Some(pair) = &e.pair {
        println!("{}", wrapped(&priced(pair), "    "));
    }
    let is_picked = |name: &str| [&e.picked, &e.prefill].iter().any(|p| p.as_deref() == Some(name));
    let mark = |name: &str| if is_picked(name) { '*' } else { ' ' };
    let prompt = e.candidates.first().map(|c| c.prompt_tokens);
    for c in &e.candidates {
        println!("{}", wrapped(&replica(c, mark(&c.url)), "      "));
    }
    for p in &e.peers {
        println!("{}", wrapped(&peer(p, prompt, mark(&p.name)), "      "));
    }
}

/// The picked replica or peer, after the replica that computes the prompt if that is another one.
fn picked(e: &Explanation) -> String {
    match (&e.picked, &e.prefill) {
        (Some(to), Some(from)) => format!("prefill {from} -> {to}"),
        (picked, _) => picked.clone().unwrap_or_else(|| "nothing".to_owned()),
    }
}

/// The price of a pair against a replica alone, and the time that KV takes between the two.
fn priced(pair: &Pair) -> String {
    let Pair { score, alone, fixed_ms, ms_per_token } = *pair;
    let score = match (score, alone) {
        (Some(score), Some(alone)) => {
            format!("score of the pair {score:.2}, of one replica alone {alone:.2}; ")
        }
        (Some(score), None) => format!("score of the pair {score:.2}; "),
        _ => String::new(),
    };
    let kv =
        format!("KV takes {fixed_ms:.1} ms and {:.1} ms for each 1,000 tokens", ms_per_token * 1e3);
    format!("  {score}{kv}")
}

fn replica(c: &Candidate, mark: char) -> String {
    let standing = c.ineligible.as_deref().unwrap_or("eligible");
    let terms: String =
        c.terms.iter().map(|(name, value)| format!(", {name} {value:.2}")).collect();
    let role = match c.role.as_str() {
        "" | "both" => String::new(),
        role => format!("{role}, "),
    };
    let moving = match c.moving_tokens > 0.0 {
        true => format!(", {:.0} tokens of KV under way", c.moving_tokens),
        false => String::new(),
    };
    format!(
        "{mark} r{} {} {role}{standing}: matched {:.0} of {} tokens, pending {}, running {}, outstanding {}, in front {:.0} tokens, kv {:.0} %{moving}{terms}",
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
