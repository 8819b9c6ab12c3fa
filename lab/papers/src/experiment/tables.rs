//! The tables that an experiment's YAML describes, over its values and the published ones.

use meridian_tools::plot::{self, Figure, Point};
use meridian_tools::stats::{self, Mean};
use meridian_tools::table::Table;

use super::claim::shown;
use super::spec::{Column, Label, Show, Spec, TableSpec, Value};
use super::values::{Row, Values};

/// Every table of the file that has rows, and the plots of their columns.
///
/// # Errors
/// A plot that can't be drawn.
pub fn all(spec: &Spec, values: &Values) -> anyhow::Result<(Vec<Table>, Vec<Figure>)> {
    let published = Values::published(spec);
    let (mut tables, mut figures) = (Vec::new(), Vec::new());
    for one in &spec.tables {
        if one.stated {
            tables.extend(stated(one, spec, values));
            continue;
        }
        let about = |row: &&Row| {
            let has = |names: &[String], name: &String| names.is_empty() || names.contains(name);
            has(&one.systems, &row.system)
                && has(&one.workloads, &row.workload)
                && has(&one.fleets, &row.fleet)
                && one.columns.iter().any(|c| !row.known(&c.metric).is_empty())
        };
        let rows: Vec<&Row> = values.rows.iter().filter(about).collect();
        let mut fleets: Vec<Option<&str>> = vec![None];
        if one.each_fleet {
            let mut names: Vec<&str> = Vec::new();
            for row in &rows {
                if !names.contains(&row.fleet.as_str()) {
                    names.push(&row.fleet);
                }
            }
            fleets = names.into_iter().rev().map(Some).collect();
        }
        for fleet in fleets {
            let of_fleet = |row: &&&Row| fleet.is_none_or(|fleet| row.fleet == fleet);
            let rows: Vec<&Row> = rows.iter().filter(of_fleet).copied().collect();
            if rows.is_empty() {
                continue;
            }
            let title = one.title.replace("{fleet}", fleet.unwrap_or_default());
            let view = View { spec, one, values, published: &published };
            for column in one.columns.iter().filter(|column| column.bars) {
                figures.push(view.bars(&title, &rows, column)?);
            }
            tables.push(view.table(title, &rows));
        }
    }
    Ok((tables, figures))
}

/// Each published value of one system with our mean and the range of single runs.
fn stated(one: &TableSpec, spec: &Spec, values: &Values) -> Option<Table> {
    let header = ["system", "metric", "published", "mean", "single runs", "published within"];
    let mut table = Table::new(one.title.clone(), &header);
    for figure in spec.published.iter().filter(|figure| figure.is_plain()) {
        let ours =
            |row: &&Row| row.system == figure.of[0] && figure.workloads.contains(&row.workload);
        let Some([stated, _]) = figure.value.and_then(Value::ends) else { continue };
        let Some(row) = values.rows.iter().find(ours) else { continue };
        let seeds = row.known(&figure.metric);
        let Some((least, most)) = ends(&seeds) else { continue };
        let show = |value| shown(spec, &figure.metric, value);
        let mean = stats::mean(&seeds).map_or_else(String::new, |mean| show(mean.mean));
        let range = format!("{} to {}", show(least), show(most));
        let within = yes((least..=most).contains(&stated));
        let names = [row.system.clone(), figure.metric.clone()];
        table.row(names.into_iter().chain([show(stated), mean, range, within]));
        if seeds.len() == 1 {
            return None;
        }
    }
    Some(table).filter(|table| !table.rows.is_empty())
}

fn ends(values: &[f64]) -> Option<(f64, f64)> {
    let all = || values.iter().copied();
    all().reduce(f64::min).zip(all().reduce(f64::max))
}

fn yes(holds: bool) -> String {
    if holds { "yes" } else { "no" }.to_owned()
}

struct View<'a> {
    spec: &'a Spec,
    one: &'a TableSpec,
    values: &'a Values,
    published: &'a Values,
}

impl View<'_> {
    fn table(&self, title: String, rows: &[&Row]) -> Table {
        let named = |label: &Label| match label.head.as_str() {
            "" => format!("{:?}", label.name).to_lowercase(),
            head => head.to_owned(),
        };
        let mut header: Vec<String> = self.one.labels.iter().map(named).collect();
        header.extend(self.one.columns.iter().map(|column| match column.head.as_str() {
            "" => column.metric.clone(),
            head => head.to_owned(),
        }));
        let mut table = Table { title, header, rows: Vec::new() };
        for row in rows {
            let seeds = self.one.columns.iter().map(|c| row.seeds(&c.metric).len()).max();
            let each = match self.one.each_seed {
                true => (0..seeds.unwrap_or(0)).map(Some).collect(),
                false => vec![None],
            };
            for seed in each {
                let names = self.one.labels.iter().map(|label| row.name(label.name).to_owned());
                let mut cells: Vec<String> = names.collect();
                if let (Some(seed), Some(last)) = (seed, cells.last_mut()) {
                    *last += &format!(", seed {}", seed + 1);
                }
                cells.extend(self.one.columns.iter().map(|column| self.cell(row, column, seed)));
                table.row(cells);
            }
        }
        table
    }

    /// The values of a column in a row, by seed.
    fn seeds(&self, row: &Row, column: &Column) -> Vec<f64> {
        let ours = row.seeds(&column.metric);
        let other = |system: &str, fleet: &str| {
            let row = self.values.at(system, &row.workload, fleet);
            row.map_or(&[][..], |other| other.seeds(&column.metric))
        };
        let saves = |a, b| 1.0 - a / b;
        match (&column.over, &column.saves_over, &column.saves_on) {
            (Some(system), ..) => stats::paired(ours, other(system, &row.fleet), |a, b| a / b),
            (_, Some(system), _) => stats::paired(ours, other(system, &row.fleet), saves),
            (.., Some(fleet)) if *fleet == row.fleet => Vec::new(),
            (.., Some(fleet)) => stats::paired(ours, other(&row.system, fleet), saves),
            _ if column.show == Show::Interval && ours.contains(&None) => Vec::new(),
            _ => ours.iter().copied().flatten().collect(),
        }
    }

    fn cell(&self, row: &Row, column: &Column, seed: Option<usize>) -> String {
        let mut values = self.seeds(row, column);
        if let Some(seed) = seed {
            values = row.seeds(&column.metric).get(seed).copied().flatten().into_iter().collect();
        }
        let show = |value: f64| match (&column.over, &column.saves_over, &column.saves_on) {
            (Some(_), ..) => format!("{value:.2}"),
            (_, Some(_), _) | (.., Some(_)) => format!("{:.1} %", value * 100.0),
            _ => shown(self.spec, &column.metric, value),
        };
        let stated = self.published.stated(row, &column.metric);
        let ends = ends(&values);
        let shown = match column.show {
            Show::Published => stated.map(show),
            Show::Mean => stats::mean(&values).map(|mean| show(mean.mean)),
            Show::Range => ends.map(|(least, most)| format!("{} to {}", show(least), show(most))),
            Show::Within => {
                let within = |((least, most), stated)| yes((least..=most).contains(&stated));
                ends.zip(stated).map(within)
            }
            Show::Interval => stats::mean(&values).map(|Mean { mean, low, high }| {
                let [mean, low, high] = [mean, low, high].map(show);
                if low == high { mean } else { format!("{mean} ({low}-{high})") }
            }),
        };
        shown.unwrap_or_else(|| "-".to_owned())
    }

    /// A bar for each row.
    fn bars(&self, title: &str, rows: &[&Row], column: &Column) -> anyhow::Result<Figure> {
        let bar = |row: &&Row| {
            let Mean { mean, low, high } = stats::mean(&self.seeds(row, column))?;
            let names = self.one.labels.iter().map(|label| row.name(label.name));
            let name = names.collect::<Vec<_>>().join(" ");
            Some((name, Point { x: 0.0, mean, low, high }))
        };
        let bars: Vec<_> = rows.iter().filter_map(bar).collect();
        let head = if column.head.is_empty() { &column.metric } else { &column.head };
        let svg = plot::bars(title, head, &bars)?;
        Ok(Figure::new(&[&column.metric, "bars", title], title.to_owned(), svg))
    }
}

#[cfg(test)]
mod tests;
