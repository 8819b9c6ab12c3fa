//! The printed tables: the counts of one scenario, and a comparison of all.

use std::fmt::Write as _;

use comfy_table::Table;

use super::books::range;
use super::play::Played;
use super::scenario::{Promise, Scenario};
use crate::page::{ms, table};

/// The counts of one scenario.
pub(super) fn one(played: &Played) -> String {
    let mut shown = table(&["", "counted", "possible", ""]);
    for line in &played.books.lines {
        let verdict = if line.agrees() { "agrees" } else { "DIFFERS" };
        let counted = line.counted.to_string();
        shown.add_row([&line.what, &counted, &range(line.least, line.most), verdict]);
    }
    let mut text = shown.to_string();
    let course = &played.course;
    let back = course.back.map_or("not seen".into(), |t| format!("{:.1} s", t.as_secs_f64()));
    let _ = writeln!(
        text,
        "\n   TTFT p50: before {}, worst second {}; recovered {back} after the repair, by the \
         wall clock",
        ms(course.calm),
        ms(course.worst),
    );
    text
}

/// A scenario's row in the comparison.
pub(super) fn row(scenario: &Scenario, played: &Played) -> [String; 10] {
    let (c, course) = (&played.clients, &played.course);
    let promise = match scenario.promise {
        Promise::NothingLost => "nothing lost",
        Promise::OnlyStarted => "only started ones",
        Promise::StartedOrRefused => "started ones, 503",
        Promise::Nothing => "-",
    };
    [
        scenario.name.to_owned(),
        promise.to_owned(),
        c.sent.to_string(),
        c.ok.to_string(),
        c.aborted.to_string(),
        (c.errors - c.bare).to_string(),
        c.bare.to_string(),
        c.moved.to_string(),
        format!("{:.0} %", 100.0 * course.rates[1] / course.rates[0].max(0.1)),
        course.back.map_or("-".into(), |back| format!("{:.1} s", back.as_secs_f64())),
    ]
}

/// All scenarios.
pub(super) fn all(rows: Vec<[String; 10]>) -> Table {
    let mut shown = table(&[
        "",
        "may be lost",
        "sent",
        "answered",
        "hung up",
        "broken off",
        "without a byte",
        "moved",
        "rate while broken",
        "TTFT back",
    ]);
    shown.add_rows(rows);
    shown
}
