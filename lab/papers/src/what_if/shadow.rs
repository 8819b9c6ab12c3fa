//! The gateway's shadow policy, as the journal has it, beside the simulation.
//!
//! Under the recorded policy, the simulated gateways run the same shadow, with default parameters, on the
//! same requests. So the two differ by the model, by what a journal leaves out, and by chance: where
//! round robin begins its turns, or which replica first gets a long prefix, lasts for minutes. The live
//! figures are one draw too, so the seeds show by how much they may differ. The last row is the shadow's
//! policy where it is followed: caches and queues are then its own.

use meridian_routing::ShadowTotals;
use meridian_tools::table::Table;

use super::interval::SEEDS;
use super::live::Live;
use super::rows::Row;

/// Difference up to which live and simulated figures agree.
const CLOSE: f64 = 0.05;
/// Standard deviations that chance explains.
const BY_CHANCE: f64 = 2.0;
/// Number of the figures.
const FIGURES: usize = 5;

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
    fn named(&self) -> [(&'static str, f64); FIGURES] {
        [
            ("the same decisions", self.same),
            ("expected in the cache", self.matched),
            ("expected in the cache at the shadow's picks", self.shadow_matched),
            ("predicted first token", self.first_ms),
            ("predicted first token at the shadow's picks", self.shadow_first_ms),
        ]
    }

    fn values(&self) -> [f64; FIGURES] {
        self.named().map(|(_, value)| value)
    }

    /// As cells: shares in percent, and times in ms.
    fn cells(&self) -> Vec<String> {
        let shares = [self.same, self.matched, self.shadow_matched].map(|share| share * 100.0);
        let shares = shares.map(|percent| format!("{percent:.1}"));
        let times = [self.first_ms, self.shadow_first_ms].map(|ms| format!("{ms:.0}"));
        [shares.to_vec(), times.to_vec()].concat()
    }
}

/// A fleet that was simulated under the recorded policy.
struct Simulated<'a> {
    row: &'a Row,
    totals: ShadowTotals,
    figures: Figures,
    /// The standard deviation of a seed's figures; `None` for too few seeds.
    spread: Option<Figures>,
}

impl<'a> Simulated<'a> {
    fn of(row: &'a Row) -> Option<Simulated<'a>> {
        let totals = row.shadow();
        let seeds: Vec<Figures> =
            row.runs.iter().filter_map(|run| Figures::of(&run.shadow)).collect();
        let spread = (seeds.len() >= SEEDS).then(|| spread(&seeds));
        Some(Simulated { row, totals, figures: Figures::of(&totals)?, spread })
    }

    /// A sentence on what agrees with the live figures.
    fn verdict(&self, live: &Figures) -> String {
        let spread = self.spread.map(|spread| spread.values());
        let (mut close, mut chance, mut far) = (Vec::new(), Vec::new(), Vec::new());
        for (at, (name, live)) in live.named().into_iter().enumerate() {
            let simulated = self.figures.values()[at];
            let quotient = simulated / live;
            let differs = spread.map_or(0.0, |spread| spread[at]);
            if (quotient - 1.0).abs() <= CLOSE || live == simulated {
                close.push(name.to_owned());
            } else if (simulated - live).abs() <= BY_CHANCE * differs {
                let percent = differs / simulated * 100.0;
                chance.push(format!("{name} ({quotient:.2}, and seeds differ by {percent:.0} %)"));
            } else if live == 0.0 {
                far.push(format!("{name} (0 live)"));
            } else {
                far.push(format!("{name} ({quotient:.2} times the live one)"));
            }
        }
        let list = |all: &[String]| if all.is_empty() { "none".to_owned() } else { all.join(", ") };
        let chance = match (spread, far.is_empty()) {
            (Some(_), _) => format!("beyond by chance: {}; ", list(&chance)),
            (None, true) => String::new(),
            (None, false) => "by chance: --seeds 8 shows it; ".to_owned(),
        };
        format!(
            "Shadow on {}: within 5 %: {}; {chance}beyond: {}. lab/docs/simulator.md names the causes.",
            self.row.fleet,
            list(&close),
            list(&far)
        )
    }
}

/// The standard deviation of each figure.
fn spread(seeds: &[Figures]) -> Figures {
    let of = |figure: fn(&Figures) -> f64| {
        let mean = seeds.iter().map(figure).sum::<f64>() / seeds.len() as f64;
        let squares = seeds.iter().map(|seed| (figure(seed) - mean).powi(2)).sum::<f64>();
        (squares / (seeds.len() - 1) as f64).sqrt()
    };
    Figures {
        same: of(|f| f.same),
        matched: of(|f| f.matched),
        shadow_matched: of(|f| f.shadow_matched),
        first_ms: of(|f| f.first_ms),
        shadow_first_ms: of(|f| f.shadow_first_ms),
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
    let row = |name: &str, compared: String, figures: &Figures| {
        [vec![name.to_owned(), compared], figures.cells()].concat()
    };
    table.row(row("live", live.totals.compared.to_string(), &own));
    for at in simulated(live, rows) {
        let name = format!("simulated on {}", at.row.fleet);
        table.row(row(&name, at.totals.compared.to_string(), &at.figures));
        if let Some(spread) = &at.spread {
            table.row(row("a seed differs by", String::new(), spread));
        }
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
    let mut all: Vec<String> = simulated(live, rows).map(|at| at.verdict(&own)).collect();
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

/// The fleets with the same policy and shadow.
fn simulated<'a>(live: &'a Live, rows: &'a [Row]) -> impl Iterator<Item = Simulated<'a>> {
    rows.iter().filter(|row| row.spec == live.policy.name).filter_map(Simulated::of)
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

    // A figure within twice the standard deviation of a seed is a matter of chance; one seed
    // can't tell.
    #[test]
    fn chance_is_told_apart() {
        let seed = |same: u64, matched: u64| ShadowTotals {
            compared: 100,
            compared_same: same,
            prompt_tokens: 1000,
            matched_tokens: matched,
            shadow_matched_tokens: 500,
            first_token_ms: 100.0,
            shadow_first_token_ms: 200.0,
            ..ShadowTotals::default()
        };
        let live = Figures::of(&seed(20, 900)).unwrap();
        let seeds = [seed(20, 700), seed(26, 701)];
        let figures = Figures { same: 0.23, matched: 0.7005, ..live };
        let row = Row::default();
        let of = |spread| Simulated { row: &row, totals: seeds[0], figures, spread };
        let known = Figures::of(&seeds[0]).zip(Figures::of(&seeds[1]));
        let said = of(known.map(|(a, b)| spread(&[a, b]))).verdict(&live);
        let chance = "beyond by chance: the same decisions (1.15, and seeds differ by 18 %); beyond: \
                      expected in the cache (0.78 times the live one).";
        assert!(said.contains(chance), "{said}");
        let said = of(None).verdict(&live);
        assert!(said.contains("--seeds 8 shows it; beyond: the same decisions (1.15"), "{said}");
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
