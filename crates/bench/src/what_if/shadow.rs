//! The gateway's shadow policy, as the journal has it, beside the simulation.
//!
//! Under the recorded policy, the simulated gateways run the same shadow, with default parameters, on the
//! same requests. So the two differ by the model and by what a journal leaves out. The third row is the shadow's policy
//! where it is followed: caches and queues are then its own.

use meridian_routing::ShadowTotals;

use super::live::Live;
use super::rows::Row;
use crate::experiment::table::Table;

/// Difference up to which live and simulated figures agree.
const CLOSE: f64 = 0.05;

/// The figures of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    /// Share of the compared decisions that are the same.
    pub(super) same: f64,
    /// Share of their prompt tokens expected in the cache at the policy's pick, and at the shadow's.
    pub(super) matched: f64,
    pub(super) shadow_matched: f64,
    /// Predicted time to the first token, ms, in the mean.
    pub(super) first_ms: f64,
    pub(super) shadow_first_ms: f64,
}

impl Figures {
    /// The figures of these sums; `None` if nothing was compared.
    pub(super) fn of(totals: &ShadowTotals) -> Option<Figures> {
        let (count, tokens) = (totals.compared as f64, totals.prompt_tokens as f64);
        (totals.compared > 0 && totals.prompt_tokens > 0).then(|| Figures {
            same: totals.compared_same as f64 / count,
            matched: totals.matched_tokens as f64 / tokens,
            shadow_matched: totals.shadow_matched_tokens as f64 / tokens,
            first_ms: totals.first_token_ms / count,
            shadow_first_ms: totals.shadow_first_token_ms / count,
        })
    }

    /// Each figure by its name.
    pub(super) fn named(&self) -> [(&'static str, f64); 5] {
        [
            ("the same decisions", self.same),
            ("expected in the cache", self.matched),
            ("expected in the cache at the shadow's picks", self.shadow_matched),
            ("predicted first token", self.first_ms),
            ("predicted first token at the shadow's picks", self.shadow_first_ms),
        ]
    }
}

/// The table of the live shadow beside the simulated ones; `None` for a journal without a shadow.
pub(super) fn table(live: &Live, rows: &[Row]) -> Option<Table> {
    let own = Figures::of(&live.totals)?;
    let title = format!(
        "The shadow {} beside {}, as the gateway recorded it and as it is simulated",
        live.shadow.name, live.policy.name
    );
    let header = [
        "",
        "compared",
        "the same, %",
        "in cache, %",
        "at the shadow's, %",
        "first token, ms",
        "at the shadow's, ms",
    ];
    let mut table = Table::new(title, &header);
    let row = |name: String, compared: u64, f: &Figures| {
        let percent = |share: f64| format!("{:.1}", share * 100.0);
        let shares = [f.same, f.matched, f.shadow_matched].map(percent);
        let times = [f.first_ms, f.shadow_first_ms].map(|ms| format!("{ms:.0}"));
        [vec![name, compared.to_string()], shares.to_vec(), times.to_vec()].concat()
    };
    table.row(row("live".to_owned(), live.totals.compared, &own));
    for (at, totals, figures) in simulated(live, rows) {
        table.row(row(format!("simulated on {}", at.fleet), totals.compared, &figures));
    }
    for at in rows.iter().filter(|at| at.spec == live.shadow.name) {
        let cached = format!("{:.1}", at.hits * 100.0);
        let name = format!("{} followed, simulated on {}", at.policy, at.fleet);
        let first = at.ttft_ms.map_or(String::new(), |q| format!("{:.0}", q.mean));
        let none = String::new;
        table.row(vec![name, none(), none(), none(), cached, none(), first]);
    }
    Some(table)
}

/// What agrees between the journal and the simulation, a sentence for each fleet.
pub(super) fn verdicts(live: &Live, rows: &[Row]) -> Vec<String> {
    let Some(own) = Figures::of(&live.totals) else { return Vec::new() };
    let sentence = |(at, _, figures): (&Row, ShadowTotals, Figures)| {
        let pairs = own.named().into_iter().zip(figures.named());
        let (mut close, mut far) = (Vec::new(), Vec::new());
        for ((name, live), (_, simulated)) in pairs {
            let quotient = simulated / live;
            match (quotient - 1.0).abs() <= CLOSE || live == simulated {
                true => close.push(name.to_owned()),
                false if live == 0.0 => far.push(format!("{name} (0 live)")),
                false => far.push(format!("{name} ({quotient:.2} times the live one)")),
            }
        }
        let list = |all: &[String]| if all.is_empty() { "none".to_owned() } else { all.join(", ") };
        format!(
            "Shadow on {}: within 5 %: {}; beyond: {}. docs/shadow.md names the causes.",
            at.fleet,
            list(&close),
            list(&far)
        )
    };
    let mut all: Vec<String> = simulated(live, rows).map(sentence).collect();
    if live.is_unknown() {
        return vec![
            "The journal has an expression as the shadow and not its text, so it is not simulated."
                .to_owned(),
        ];
    }
    if all.is_empty() {
        all.push(format!(
            "The journal has a shadow beside {0}, which was not simulated; add {0} to --policies.",
            live.policy.name
        ));
    }
    all
}

/// The rows with the same policy and shadow.
fn simulated<'a>(
    live: &'a Live,
    rows: &'a [Row],
) -> impl Iterator<Item = (&'a Row, ShadowTotals, Figures)> {
    let same = rows.iter().filter(|row| row.spec == live.policy.name);
    same.filter_map(|row| Some((row, row.shadow, Figures::of(&row.shadow)?)))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use meridian_base::Time;
    use meridian_routing::policy;
    use meridian_workload::trace::{Compared, Shadowed, TraceRequest};

    use super::super::live::live;
    use super::*;

    fn request(policy: &str, would: &str, compared: Option<Compared>) -> TraceRequest {
        let shadow = Shadowed { policy: "round_robin".into(), would: would.into(), compared };
        TraceRequest {
            policy: Some(policy.into()),
            shadow: Some(shadow),
            ..TraceRequest::new(Time::ZERO, 100, 10)
        }
    }

    // The sums of a journal are those of its lines, for the policies that most of them name.
    #[test]
    fn a_journal_with_a_shadow() {
        let compared = Compared {
            prompt_tokens: 100,
            matched_tokens: 60,
            shadow_matched_tokens: 20,
            first_token: Duration::from_millis(40),
            shadow_first_token: Duration::from_millis(80),
        };
        let lines = [
            request("meridian", "other_replica", Some(compared)),
            request("meridian", "same", Some(Compared { shadow_matched_tokens: 60, ..compared })),
            request("meridian", "would_wait", None),
            request("random", "same", Some(compared)),
            TraceRequest::new(Time::ZERO, 100, 10),
        ];
        let live = live(&lines).unwrap();
        assert_eq!((live.policy.name, live.shadow.name), ("meridian", "round_robin"));
        assert_eq!((live.totals.all(), live.totals.compared), (3, 2));
        let figures = Figures::of(&live.totals).unwrap();
        assert_eq!((figures.same, figures.matched, figures.shadow_matched), (0.5, 0.6, 0.4));
        assert_eq!((figures.first_ms, figures.shadow_first_ms), (40.0, 80.0));
        assert!(live.beside(policy::find("meridian").unwrap()).is_some());
        assert!(live.beside(policy::find("random").unwrap()).is_none());
        assert!(super::super::live::live(&lines[4..]).is_none());
    }
}
