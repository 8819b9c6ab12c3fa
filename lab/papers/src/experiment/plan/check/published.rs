//! Checks of published figures and of the tables beside them.

use meridian_tools::metric;

use super::known;
use crate::experiment::spec::{DuelColumn, Spec};

/// Names that are not among the systems, workloads and fleets, or no quantity.
pub(super) fn problems(spec: &Spec, there: [Vec<&String>; 3]) -> Vec<String> {
    let [systems, workloads, fleets] = there;
    let own = spec.quantities.iter().map(|one| one.name.as_str());
    let quantities: Vec<&str> = metric::all().map(|m| m.name).chain(own).collect();
    let mut found = Vec::new();
    let mut check = |field: &str, name: &str, known_names: &[&String]| {
        found.extend(known(field, name, known_names.iter()));
    };
    // The rows of computed quantities have the names that the experiment's code gives them.
    let computed = |name: &str| {
        spec.quantities.iter().any(|one| one.name == name && one.of.is_none())
            && metric::find(name).is_none()
    };
    for (i, figure) in spec.published.iter().enumerate() {
        if computed(&figure.metric) {
            continue;
        }
        let field = format!("published[{i}]");
        let compared = [&figure.over, &figure.minus, &figure.saves_over];
        let named = figure.of.iter().chain(compared.into_iter().flatten());
        named.for_each(|s| check(&field, s, &systems));
        let about = figure.workloads.iter().chain(&figure.against);
        about.for_each(|w| check(&field, w, &workloads));
        figure.fleets.iter().chain(&figure.on).for_each(|f| check(&field, f, &fleets));
    }
    for (i, figure) in spec.published.iter().enumerate() {
        let field = format!("published[{i}]");
        found.extend(known(&format!("{field}.metric"), &figure.metric, quantities.iter()));
        let compared = [&figure.over, &figure.minus, &figure.saves_over];
        let forms = compared.into_iter().filter(|names| !names.is_empty()).count();
        if figure.of.is_empty() || forms > 1 {
            found.push(format!(
                "{field}: name systems in `of`, and in at most one of `over`, `minus`, `saves_over`"
            ));
        }
        if figure.value.is_none() && spec.published_tables.is_empty() {
            found.push(format!("{field}.value: missing; give it, or `published_tables`"));
        }
    }
    for (i, table) in spec.published_tables.iter().enumerate() {
        let field = format!("published_tables[{i}]");
        let columns = format!("{field}.columns");
        table.columns.iter().for_each(|c| found.extend(known(&columns, c, quantities.iter())));
        for (workload, systems) in &table.rows {
            for (system, values) in systems.iter().filter(|one| one.1.len() != table.columns.len())
            {
                let (has, wants) = (values.len(), table.columns.len());
                found.push(format!(
                    "{field}.rows.{workload}.{system}: has {has} values for {wants} columns; \
                     write ~ for one that was not published"
                ));
            }
        }
    }
    let facts = spec.duels.iter().flat_map(|duels| &duels.tables).flat_map(|one| &one.columns);
    for column in facts {
        if let DuelColumn::Metric(name) = column {
            found.extend(known("duels.tables.columns", name, metric::all().map(|m| m.name)));
        }
    }
    for (i, table) in spec.tables.iter().enumerate() {
        for column in &table.columns {
            let field = format!("tables[{i}].columns");
            found.extend(known(&field, &column.metric, quantities.iter()));
        }
    }
    found
}
