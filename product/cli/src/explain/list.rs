//! The newest decisions, a line each.

use meridian_protocol::admin::Decided;

use super::table::{self, Column, Need};
use super::words::{outcome, short};

pub(super) fn text(decisions: &[Decided]) -> String {
    if decisions.is_empty() {
        return "no decision yet\n".to_owned();
    }
    let each = |cell: fn(&Decided) -> String| decisions.iter().map(cell).collect::<Vec<_>>();
    let columns = vec![
        Column::text("request", Need::Name, each(|d| d.id.clone())),
        Column::number("at s", Need::Spare, each(|d| format!("{:.1}", d.at_s))),
        Column::number("attempt", Need::Spare, each(|d| d.attempt.to_string())),
        Column::text("picked", Need::Name, each(picked)),
        Column::text("reason", Need::Name, each(|d| d.reason.clone())),
        Column::number("matched", Need::Spare, each(matched)),
        Column::text("outcome", Need::Name, each(|d| outcome(&d.ending))),
        Column::number("first ms", Need::Always, each(|d| ms(d.ending.first_token_ms))),
        Column::number("total ms", Need::Always, each(|d| ms(d.ending.total_ms))),
    ];
    table::text(columns).0
}

fn picked(d: &Decided) -> String {
    match (&d.prefill, &d.picked) {
        (Some(from), Some(to)) => {
            format!("{} > {}", short(from), d.name.as_deref().unwrap_or(short(to)))
        }
        (_, Some(to)) => d.name.as_deref().unwrap_or(short(to)).to_owned(),
        (_, None) => "-".to_owned(),
    }
}

/// Matched tokens of the prompt.
fn matched(d: &Decided) -> String {
    format!("{:.0}/{}", d.matched_tokens, d.prompt_tokens)
}

fn ms(time: Option<f64>) -> String {
    time.map_or("-".to_owned(), |ms| format!("{ms:.0}"))
}
