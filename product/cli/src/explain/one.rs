//! One decision: what was picked, how it ended, and the candidates as a table.

use meridian_protocol::admin::{
    Candidate, Decided, Explanation, Pair, PeerCandidate, SiblingShare,
};

use super::table::{self, Column, Need, wrapped};
use super::words::{cut, outcome_and_times, short};

/// Candidates that are printed besides the picked one.
const BEST: usize = 10;
/// Earlier decisions that are printed.
const EARLIER: usize = 5;
/// Longest name outside the tables.
const NAME: usize = 60;
/// Longest name of a term above its column.
const HEAD: usize = 16;
/// The policy whose terms are the summands of any expression, by their text.
const EXPRESSION: &str = "expression";

/// The decision as text; with every candidate if `all`.
pub(super) fn text(e: &Explanation, all: bool) -> String {
    let mut text = wrapped(&head(e), "    ");
    text += &wrapped(&details(e), "    ");
    text += &earlier(&e.earlier);
    if !e.rules.is_empty() {
        let rules: Vec<String> = e.rules.iter().map(|rule| cut(rule, NAME)).collect();
        text += &wrapped(&format!("  residency rules: {}", rules.join(", ")), "    ");
    }
    if let Some(pair) = &e.pair {
        text += &wrapped(&priced(pair), "    ");
    }
    text += &shadow(e);
    text += &of_siblings(e);
    text += &candidates(e, all);
    text += &peers(e);
    text
}

/// The request, the decision and its outcome.
fn head(e: &Explanation) -> String {
    let is_peer = |to: &str| e.peers.iter().any(|peer| peer.name == to);
    let decision = match (&e.prefill, &e.picked) {
        (Some(from), Some(to)) => {
            let (from, to) = (cut(from, NAME), cut(to, NAME));
            format!("prefill at {from}, answer from {to} ({})", e.reason)
        }
        (_, Some(to)) => {
            let how = if is_peer(to) { "forwarded" } else { "sent" };
            format!("{how} to {} ({})", cut(to, NAME), e.reason)
        }
        (_, None) => e.reason.clone(),
    };
    format!("{}: {decision}; {}", cut(&e.id, NAME), outcome_and_times(&e.ending))
}

fn details(e: &Explanation) -> String {
    let resumed = if e.resumed { ", resuming a broken answer" } else { "" };
    let prompt = e
        .candidates
        .first()
        .map_or(String::new(), |first| format!(", prompt of {} tokens", first.prompt_tokens));
    let logged = match e.logged_as != e.id {
        true => format!("; {} in the gateway's log", e.logged_as),
        false => String::new(),
    };
    format!("  policy {}, attempt {}{resumed}{prompt}{logged}", e.policy, e.attempt)
}

/// What the shadow policy would have done.
fn shadow(e: &Explanation) -> String {
    let Some(shadow) = &e.shadow else { return String::new() };
    let reason = shadow.reason.as_deref().unwrap_or_default();
    let would = match (shadow.would.as_str(), &shadow.prefill, &shadow.picked) {
        ("same", ..) => "does the same".to_owned(),
        (_, Some(from), Some(to)) => {
            format!(
                "would prefill at {} and answer from {} ({reason})",
                cut(from, NAME),
                cut(to, NAME)
            )
        }
        ("would_forward" | "other_peer", _, Some(to)) => {
            format!("would forward to {} ({reason})", cut(to, NAME))
        }
        (_, _, Some(to)) => format!("would send to {} ({reason})", cut(to, NAME)),
        (_, _, None) => "would queue it".to_owned(),
    };
    let matched = shadow.matched_tokens.filter(|_| shadow.would != "same");
    let matched =
        matched.map_or(String::new(), |tokens| format!(", {tokens} tokens matched there"));
    let first = match (shadow.predicted_first_token_ms, e.predicted_first_token_ms) {
        (Some(there), Some(here)) if shadow.would != "same" => {
            format!(", first token predicted after {there:.1} ms instead of {here:.1}")
        }
        _ => String::new(),
    };
    wrapped(&format!("  shadow policy {} {would}{matched}{first}", shadow.policy), "    ")
}

/// The decisions before this one, a line each.
fn earlier(decisions: &[Decided]) -> String {
    let skipped = decisions.len().saturating_sub(EARLIER);
    let more = match skipped {
        0 => String::new(),
        skipped => format!("  before: {skipped} further decisions, which --json prints\n"),
    };
    let line = |d: &Decided| {
        let decision = match &d.picked {
            Some(to) => format!("attempt {} at {} ({})", d.attempt, cut(to, NAME), d.reason),
            None => d.reason.clone(),
        };
        wrapped(&format!("  before: {decision}; {}", outcome_and_times(&d.ending)), "    ")
    };
    more + &decisions.iter().skip(skipped).map(line).collect::<String>()
}

/// The price of a pair against a replica alone, and the time that KV takes between the two.
fn priced(pair: &Pair) -> String {
    let Pair { score, alone, fixed_ms, ms_per_token } = *pair;
    let score = match (score, alone) {
        (Some(score), Some(alone)) => {
            format!("score of the pair {score:.1}, of one replica alone {alone:.1}; ")
        }
        (Some(score), None) => format!("score of the pair {score:.1}; "),
        _ => String::new(),
    };
    let kv =
        format!("KV takes {fixed_ms:.1} ms and {:.1} ms for each 1,000 tokens", ms_per_token * 1e3);
    format!("  {score}{kv}")
}

/// What other gateways of the region had at the picked replicas. The number of all requests there is not
/// beside it: it follows the engine's report, which can be behind.
fn of_siblings(e: &Explanation) -> String {
    let line = |(c, theirs): (&Candidate, SiblingShare)| {
        let SiblingShare { outstanding, waiting, front_tokens } = theirs;
        let (name, all) = (cut(&called(c), NAME), c.front_tokens);
        let text = format!(
            "  sibling gateways had {outstanding} requests at {name}, {waiting} without a first token, and {front_tokens:.0} \
             of {all:.0} prefill tokens ahead"
        );
        wrapped(&text, "    ")
    };
    let picked = e.candidates.iter().filter(|c| is_picked(e, &c.url));
    picked.filter_map(|c| Some((c, c.of_siblings?))).map(line).collect()
}

/// The table of candidates: the picked ones, then the eligible ones by their total, then the rest.
fn candidates(e: &Explanation, all: bool) -> String {
    if e.candidates.is_empty() {
        return String::new();
    }
    let rank = |c: &Candidate| match is_picked(e, &c.url) {
        true => u8::from(Some(&c.url) == e.picked.as_ref()),
        false => 2 + u8::from(c.ineligible.is_some()),
    };
    let mut rows: Vec<&Candidate> = e.candidates.iter().collect();
    rows.sort_by(|a, b| {
        let totals = || total(e, a).unwrap_or(0.0).total_cmp(&total(e, b).unwrap_or(0.0));
        rank(a).cmp(&rank(b)).then_with(totals)
    });
    let picked = rows.iter().filter(|c| is_picked(e, &c.url)).count();
    let shown = if all { rows.len() } else { rows.len().min(picked + BEST) };
    let hidden = rows.split_off(shown);
    let all_rows = rows.len() + hidden.len();
    assert_eq!(all_rows, e.candidates.len(), "each candidate is printed or counted");
    let (table, left_out) = table::text(columns(e, &rows));
    let mut text = format!("\n{table}");
    for (nth, name) in names(&rows).iter().enumerate().filter(|(_, name)| is_long(name)) {
        text += &wrapped(&format!("  {}: {name}", term(nth)), "    ");
    }
    if !left_out.is_empty() {
        let terms = left_out.join(", ");
        text += &wrapped(&format!("  Left out: {terms}; --json prints all terms."), "    ");
    }
    if !hidden.is_empty() {
        let (number, all) = (hidden.len(), rows.len() + hidden.len());
        let eligible = hidden.iter().filter(|c| c.ineligible.is_none()).count();
        text += &format!(
            "  {number} of {all} candidates are left out, {eligible} of them eligible; --all prints them.\n"
        );
    }
    text
}

fn columns(e: &Explanation, rows: &[&Candidate]) -> Vec<Column> {
    let each =
        |cell: &dyn Fn(&Candidate) -> String| rows.iter().map(|c| cell(c)).collect::<Vec<_>>();
    let divides = rows.iter().any(|c| !matches!(c.role.as_str(), "" | "both"));
    let role = |c: &Candidate| if divides { c.role.clone() } else { String::new() };
    let moving = |c: &Candidate| match c.moving_tokens > 0.0 {
        true => format!("{:.0}", c.moving_tokens),
        false => String::new(),
    };
    let mut columns = vec![
        Column::text("", Need::Always, each(&|c| mark(is_picked(e, &c.url)))),
        Column::text("replica", Need::Name, each(&|c| format!("{} {}", called(c), short(&c.url)))),
        Column::text(if divides { "role" } else { "" }, Need::Always, each(&role)),
    ];
    columns.extend(terms(e, rows));
    if rows.iter().any(|c| total(e, c).is_some()) {
        let cell =
            |c: &Candidate| total(e, c).map_or("-".to_owned(), |total| format!("{total:.1}"));
        let head = if e.policy == EXPRESSION { "score" } else { "total ms" };
        columns.push(Column::number(head, Need::Always, each(&cell)));
    }
    let standing = |c: &Candidate| standing(is_picked(e, &c.url), c.ineligible.as_deref());
    columns.push(Column::text("", Need::Always, each(&standing)));
    columns.extend([
        Column::number("matched", Need::Spare, each(&|c| format!("{:.0}", c.matched_tokens))),
        Column::number("running", Need::Spare, each(&|c| c.running.to_string())),
        Column::number("pending", Need::Spare, each(&|c| c.pending.to_string())),
        Column::number("kv %", Need::Spare, each(&|c| format!("{:.0}", c.kv_used * 100.0))),
    ]);
    if rows.iter().any(|c| c.of_siblings.is_some()) {
        let theirs = |c: &Candidate| c.of_siblings.unwrap_or_default().outstanding.to_string();
        columns.push(Column::number("siblings'", Need::Spare, each(&theirs)));
    }
    if rows.iter().any(|c| c.moving_tokens > 0.0) {
        columns.push(Column::number("kv moving", Need::Spare, each(&moving)));
    }
    columns
}

/// The names of the terms, in the order of the first candidate that has each.
fn names<'a>(rows: &[&'a Candidate]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in rows.iter().flat_map(|c| &c.terms) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

/// Whether a name is too long for the head of a column.
fn is_long(name: &str) -> bool {
    name.chars().count() > HEAD
}

/// The head of a term with a long name.
fn term(nth: usize) -> String {
    format!("term {}", nth + 1)
}

/// A column for each term. Terms in ms lose their unit, which is at the total.
fn terms(e: &Explanation, rows: &[&Candidate]) -> Vec<Column> {
    let priced = e.policy != EXPRESSION && rows.iter().any(|c| total(e, c).is_some());
    let column = |(nth, name): (usize, &str)| {
        let value = |c: &Candidate| c.terms.iter().find(|term| term.0 == name).map(|term| term.1);
        let whole = rows.iter().filter_map(|c| value(c)).all(|value| value.fract() == 0.0);
        let digits = match (name.ends_with("_ms"), whole) {
            (true, _) => 1,
            (false, true) => 0,
            (false, false) => 2,
        };
        let cell = |c: &&Candidate| value(c).map_or("-".to_owned(), |v| format!("{v:.digits$}"));
        let head = match is_long(name) {
            true => term(nth),
            false => name.strip_suffix("_ms").filter(|_| priced).unwrap_or(name).to_owned(),
        };
        Column::number(&head, Need::Term, rows.iter().map(cell).collect())
    };
    names(rows).into_iter().enumerate().map(column).collect()
}

/// The sum of a candidate's terms, if it is a time or the value of an expression.
fn total(e: &Explanation, c: &Candidate) -> Option<f64> {
    let is_time = |(name, _): &(String, f64)| name.ends_with("_ms");
    let priced = !c.terms.is_empty() && (e.policy == EXPRESSION || c.terms.iter().all(is_time));
    priced.then(|| c.terms.iter().map(|(_, ms)| ms).sum())
}

/// The table of peers.
fn peers(e: &Explanation) -> String {
    if e.peers.is_empty() {
        return String::new();
    }
    let each =
        |cell: &dyn Fn(&PeerCandidate) -> String| e.peers.iter().map(cell).collect::<Vec<_>>();
    let is_picked = |p: &PeerCandidate| is_picked(e, &p.name);
    let columns = vec![
        Column::text("", Need::Always, each(&|p| mark(is_picked(p)))),
        Column::text("peer", Need::Name, each(&|p| p.name.clone())),
        Column::number("matched", Need::Always, each(&|p| format!("{:.0}", p.matched_tokens))),
        Column::number("rtt ms", Need::Always, each(&|p| format!("{:.0}", p.rtt_ms))),
        Column::number("free replicas", Need::Always, each(&|p| p.eligible.to_string())),
        Column::number("queued", Need::Always, each(&|p| p.held.to_string())),
        Column::number("forwarded", Need::Always, each(&|p| p.since.to_string())),
        Column::text("", Need::Always, each(&|p| standing(is_picked(p), p.unavailable.as_deref()))),
    ];
    format!("\n{}", table::text(columns).0)
}

/// A replica's name: its own, or its id.
fn called(c: &Candidate) -> String {
    c.name.clone().unwrap_or_else(|| format!("r{}", c.id))
}

fn is_picked(e: &Explanation, name: &str) -> bool {
    [&e.picked, &e.prefill].into_iter().any(|picked| picked.as_deref() == Some(name))
}

fn mark(picked: bool) -> String {
    if picked { "→".to_owned() } else { String::new() }
}

/// `picked`, or why it could not be; empty for an eligible one. A promise picks a full replica.
fn standing(picked: bool, ineligible: Option<&str>) -> String {
    match (picked, ineligible) {
        (true, Some(why)) => format!("picked, {why}"),
        (true, None) => "picked".to_owned(),
        (false, why) => why.unwrap_or_default().to_owned(),
    }
}
