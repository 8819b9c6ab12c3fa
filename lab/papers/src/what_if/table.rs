//! The tables of the answer. They fit into 120 columns unless a name is long, so the figures of a fleet
//! are in two of them.

use meridian_tools::table::Table;

use super::answer::{Answer, Found};
use super::headline::met;
use super::interval::{self, FigureOf, GOODPUT, MET, TPOT_MEAN, TPOT_P90, TTFT_MEAN, TTFT_P50};
use super::interval::{TTFT_P90, TTFT_P99};
use super::names::named_as;
use super::question::Question;
use super::rows::Row;

/// A column: its name, the figure, and the factor and the digits that it is shown with.
type Column = (&'static str, FigureOf, [usize; 2]);

/// The figures of a decision.
const MAIN: [Column; 4] = [
    ("SLO met, %", MET, [100, 1]),
    ("TTFT, ms", TTFT_MEAN, [1, 0]),
    ("TTFT P90", TTFT_P90, [1, 0]),
    ("TPOT, ms", TPOT_MEAN, [1, 1]),
];
/// The others.
const MORE: [Column; 4] = [
    ("goodput, req/s", GOODPUT, [1, 3]),
    ("TTFT P50", TTFT_P50, [1, 0]),
    ("TTFT P99", TTFT_P99, [1, 0]),
    ("TPOT P90", TPOT_P90, [1, 1]),
];

/// Each policy on each fleet.
pub(super) fn fleets(question: &Question, answer: &Answer) -> Table {
    let header = [&["policy", "fleet", "load"][..], &MAIN.map(name), &["USD/h"]].concat();
    let title = format!(
        "Each policy on each fleet; SLO: {}; {}",
        question.slo,
        match question.seeds {
            1 => "one seed, so no intervals".to_owned(),
            seeds => format!("means of {seeds} seeds ± the 95 % interval"),
        }
    );
    let mut table = Table::new(title, &header);
    for row in &answer.rows {
        table.row([start(row), cells(row, &MAIN), vec![usd(row)]].concat());
    }
    table
}

/// The other figures of each policy on each fleet.
pub(super) fn more(question: &Question, answer: &Answer) -> Table {
    let extra = Extra::of(question, answer);
    let header =
        [&["policy", "fleet", "load"][..], &MORE.map(name), &["cached, %"], &extra.header()];
    let mut table = Table::new("More figures of each", &header.concat());
    for row in &answer.rows {
        let cached = vec![percent(row.hits)];
        table.row([start(row), cells(row, &MORE), cached, extra.cells(row)].concat());
    }
    table
}

/// The smallest fleet of each policy, and how near the next smaller one comes. Without one, the figures
/// are those of the largest.
pub(super) fn least(question: &Question, answer: &Answer) -> Table {
    let first = ["policy", "least fleet", "SLO met, %", "next smaller, %"];
    let extra = Extra::of(question, answer);
    let header = [&first[..], &MAIN.map(name)[1..], &["USD/h"], &extra.header()].concat();
    let share = question.slo.share * 100.0;
    let title =
        format!("The least fleet that keeps up and meets the SLO with {share} % of the requests");
    let mut table = Table::new(title, &header);
    for least in &answer.least {
        let name = named_as(&least.policy, &least.arrangement);
        let near = least.nearest.as_deref();
        let (row, fleet, next) = match &least.found {
            Found::Fleet(row) => (Some(&**row), row.fleet.clone(), near.map(met)),
            Found::NoneUpTo(most) => (near, format!("none of up to {most}"), None),
        };
        let Some(row) = row else { continue };
        let first = vec![name, fleet, met(row), next.unwrap_or_default()];
        let rest = [cells(row, &MAIN[1..]), vec![usd(row)], extra.cells(row)];
        table.row([first, rest.concat()].concat());
    }
    table
}

fn name(column: Column) -> &'static str {
    column.0
}

/// The first cells of a row: policy, fleet and load.
fn start(row: &Row) -> Vec<String> {
    let load = match (&row.overloaded, row.met > 0.0) {
        (Some(overload), _) => overload.mark(),
        (None, true) => "keeps up".to_owned(),
        (None, false) => "meets nothing".to_owned(),
    };
    vec![named_as(&row.policy, &row.arrangement), row.fleet.clone(), load]
}

fn cells(row: &Row, columns: &[Column]) -> Vec<String> {
    columns.iter().map(|(_, figure, shown)| interval::cell(row, *figure, *shown)).collect()
}

fn usd(row: &Row) -> String {
    row.usd_per_hour().map_or(String::new(), |usd| format!("{usd:.2}"))
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

fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// A line for each overloaded fleet.
pub(super) fn overloads(answer: &Answer) -> Vec<String> {
    let line = |row: &Row| {
        let why = &row.overloaded.as_ref()?.why;
        Some(format!("{} under {}: {why}", row.fleet, named_as(&row.policy, &row.arrangement)))
    };
    answer.rows.iter().filter_map(line).collect()
}
