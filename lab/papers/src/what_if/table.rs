//! The tables of the answer.

use meridian_tools::load::Quantiles;
use meridian_tools::table::Table;

use super::answer::{Answer, Found};
use super::headline::{counted, named_as};
use super::question::Question;
use super::rows::Row;

/// Each policy on each fleet.
pub(super) fn fleets(question: &Question, answer: &Answer) -> Table {
    let extra = Extra::of(question, answer);
    let header = [&["policy", "fleet", "load"][..], &NUMBERS, &extra.header()].concat();
    let title = format!("Each policy on each fleet; SLO: {}", question.slo);
    let mut table = Table::new(title, &header);
    for row in &answer.rows {
        let load = match (row.overloaded.is_some(), row.met > 0.0) {
            (true, _) => "overloaded",
            (false, true) => "keeps up",
            (false, false) => "meets nothing",
        };
        let name = named_as(&row.policy, &row.arrangement);
        let first = vec![name, row.fleet.clone(), load.to_owned()];
        table.row([first, numbers(row), extra.cells(row)].concat());
    }
    table
}

/// The smallest fleet of each policy.
pub(super) fn least(question: &Question, answer: &Answer) -> Table {
    let extra = Extra::of(question, answer);
    let header = [&["policy", "least fleet", "replicas"][..], &NUMBERS, &extra.header()].concat();
    let share = question.slo.share * 100.0;
    let title =
        format!("The least fleet that keeps up and meets the SLO with {share} % of the requests");
    let mut table = Table::new(title, &header);
    for least in &answer.least {
        let name = named_as(&least.policy, &least.arrangement);
        table.row(match &least.found {
            Found::Fleet(row) => {
                let replicas = row.replicas.to_string();
                [vec![name, row.fleet.clone(), replicas], numbers(row), extra.cells(row)].concat()
            }
            Found::NoneUpTo(most) => {
                let none = format!("none of up to {}", counted(*most, "replica"));
                [vec![name, none], vec![String::new(); header.len() - 2]].concat()
            }
        });
    }
    table
}

/// The columns that only some questions need.
struct Extra {
    forwarded: bool,
    egress: bool,
    split: bool,
}

impl Extra {
    fn of(question: &Question, answer: &Answer) -> Extra {
        Extra {
            forwarded: question.places.regions.len() > 1,
            egress: question.places.charges(),
            split: answer.rows.iter().any(|row| row.split > 0.0),
        }
    }

    fn header(&self) -> Vec<&'static str> {
        let all = [
            self.forwarded.then_some("forwarded, %"),
            self.egress.then_some("egress, USD/h"),
            self.split.then_some("split, %"),
        ];
        all.into_iter().flatten().collect()
    }

    fn cells(&self, row: &Row) -> Vec<String> {
        let all = [
            self.forwarded.then(|| percent(row.forwarded)),
            self.egress.then(|| format!("{:.3}", row.egress_usd_per_hour)),
            self.split.then(|| percent(row.split)),
        ];
        all.into_iter().flatten().collect()
    }
}

/// The columns of [`numbers`].
const NUMBERS: [&str; 10] = [
    "goodput, req/s",
    "SLO met, %",
    "TTFT mean, ms",
    "P50",
    "P90",
    "P99",
    "TPOT mean, ms",
    "P90",
    "cached, %",
    "USD/h",
];

fn numbers(row: &Row) -> Vec<String> {
    let ms = |of: &Option<Quantiles>, digits: usize, get: fn(&Quantiles) -> f64| {
        of.as_ref().map_or(String::new(), |q| format!("{:.digits$}", get(q)))
    };
    vec![
        format!("{:.3}", row.goodput_rps),
        percent(row.met),
        ms(&row.ttft_ms, 0, |q| q.mean),
        ms(&row.ttft_ms, 0, |q| q.p50),
        ms(&row.ttft_ms, 0, |q| q.p90),
        ms(&row.ttft_ms, 0, |q| q.p99),
        ms(&row.tpot_ms, 1, |q| q.mean),
        ms(&row.tpot_ms, 1, |q| q.p90),
        percent(row.hits),
        row.usd_per_hour().map_or(String::new(), |usd| format!("{usd:.2}")),
    ]
}

fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// A line for each overloaded fleet.
pub(super) fn overloads(answer: &Answer) -> Vec<String> {
    let line = |row: &Row| {
        let why = row.overloaded.as_ref()?;
        Some(format!("{} under {}: {why}", row.fleet, named_as(&row.policy, &row.arrangement)))
    };
    answer.rows.iter().filter_map(line).collect()
}
