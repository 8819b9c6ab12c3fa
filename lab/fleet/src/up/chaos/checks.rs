//! What a run is judged by: counts with their limits, and sentences about everything else.

use comfy_table::Table;

use crate::page::table;

/// Names that are shown of a count over its limit.
const SHOWN: usize = 5;

/// A count, and its allowed range.
struct Ranged {
    what: String,
    least: u64,
    counted: u64,
    most: u64,
    /// The names of the first ones, if a name helps to find the cause.
    which: String,
}

impl Ranged {
    fn agrees(&self) -> bool {
        (self.least..=self.most).contains(&self.counted)
    }
}

/// The checks of a run.
#[derive(Default)]
pub(super) struct Checks {
    all: Vec<Ranged>,
    /// Other problems, one sentence each.
    pub(super) faults: Vec<String>,
}

impl Checks {
    /// A count from `least` to `most`.
    pub(super) fn range(&mut self, what: impl Into<String>, least: u64, counted: u64, most: u64) {
        self.all.push(Ranged { what: what.into(), least, counted, most, which: String::new() });
    }

    /// Without any, nothing was tested.
    pub(super) fn some(&mut self, what: impl Into<String>, counted: u64) {
        self.range(what, 1, counted, u64::MAX);
    }

    /// There must be none. The first ones are named.
    pub(super) fn none(&mut self, what: impl Into<String>, found: &[String]) {
        let which = match found {
            [] => String::new(),
            found => format!(" ({})", found[..found.len().min(SHOWN)].join(", ")),
        };
        let counted = found.len() as u64;
        self.all.push(Ranged { what: what.into(), least: 0, counted, most: 0, which });
    }

    /// All problems, one sentence each.
    pub(super) fn all(&self) -> Vec<String> {
        let differ = self.all.iter().filter(|check| !check.agrees()).map(|check| {
            let Ranged { what, counted, which, .. } = check;
            format!("{what}: {counted}, not {}{which}", range(check))
        });
        differ.chain(self.faults.iter().cloned()).collect()
    }

    /// Every count with its range.
    pub(super) fn table(&self) -> Table {
        let mut shown = table(&["", "counted", "possible", ""]);
        for check in &self.all {
            let verdict = if check.agrees() { "agrees" } else { "DIFFERS" };
            shown.add_row([&check.what, &check.counted.to_string(), &range(check), verdict]);
        }
        shown
    }
}

fn range(check: &Ranged) -> String {
    match (check.least, check.most) {
        (least, most) if least == most => least.to_string(),
        (least, u64::MAX) => format!("{least} or more"),
        (least, most) => format!("{least} to {most}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Only a count outside its range is a problem, and its first names are given.
    #[test]
    fn counts_outside_their_range() {
        let mut checks = Checks::default();
        checks.range("done", 2, 3, 3);
        checks.some("answers", 1);
        checks.none("lost", &[]);
        assert!(checks.all().is_empty());
        checks.range("done", 2, 4, 3);
        checks.none("lost", &["a".into(), "b".into()]);
        assert_eq!(checks.all(), ["done: 4, not 2 to 3", "lost: 2, not 0 (a, b)"]);
    }
}
